"""vLLM as a child of the worker."""
