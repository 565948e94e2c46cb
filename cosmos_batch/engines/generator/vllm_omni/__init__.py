"""The engine `vllm-omni`: a vLLM-Omni server as a child process of the worker, or one that runs elsewhere."""
