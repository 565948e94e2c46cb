"""What is particular to vLLM's server, which vLLM-Omni's is built on: how it reports its start, memory and refusals."""
