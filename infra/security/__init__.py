"""What reviews of security ask of the templates, and our answers."""
