"""What crosses a boundary for a generation: request parameters, the settled generation, its outputs and document."""
