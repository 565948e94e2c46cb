"""Define schemas of a generation: request parameters, the settled generation, its outputs and document."""
