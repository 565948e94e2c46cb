"""vLLM-Omni: as a child of the worker, or somebody else's."""
