"""Interpret how vLLM's server, which vLLM-Omni's is built on, reports its start, memory and refusals."""
