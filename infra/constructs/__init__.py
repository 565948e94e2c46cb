"""One construct for each capability."""
