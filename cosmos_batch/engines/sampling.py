"""How the next token is drawn: what NVIDIA publishes for Cosmos-Reason2, after Qwen3-VL's own settings."""

from dataclasses import dataclass

from cosmos_batch.engines.reasoning import OPEN

# Tokens, where neither the request nor the checkpoint's generation_config says how long an answer may be.
DEFAULT_MAX_TOKENS = 4096


@dataclass(frozen=True)
class Sampling:
    """Sampling parameters by the names that vLLM and the OpenAI protocol give them."""

    temperature: float
    top_p: float
    top_k: int
    repetition_penalty: float
    presence_penalty: float
    seed: int


ANSWERING = Sampling(0.7, 0.8, 20, 1.0, 1.5, 3407)
REASONING = Sampling(0.6, 0.95, 20, 1.0, 0.0, 1234)


def sampling_for(prompt: str) -> Sampling:
    """Cosmos-Reason2 reasons when its prompt asks for a `<think>` block, and wants other settings then."""
    return REASONING if OPEN in prompt else ANSWERING
