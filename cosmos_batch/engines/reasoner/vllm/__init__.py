"""The reasoner engine on vLLM. What its server prints and answers is understood in `cosmos_batch/engines/vllm`."""
