"""How the next token is drawn: what NVIDIA publishes for Cosmos-Reason2, after Qwen3-VL's own settings."""

from dataclasses import asdict, dataclass

from cosmos_batch.contract.parameters import Parameters


@dataclass(frozen=True)
class Sampling:
    """Sampling parameters by the names that vLLM and the OpenAI protocol give them, and `Parameters` has too."""

    temperature: float
    top_p: float
    top_k: int
    repetition_penalty: float
    presence_penalty: float
    seed: int


ANSWERING = Sampling(0.7, 0.8, 20, 1.0, 1.5, 3407)
REASONING = Sampling(0.6, 0.95, 20, 1.0, 0.0, 1234)


def with_sampling(parameters: Parameters) -> Parameters:
    """The parameters with NVIDIA's values where the caller gave none: those for reasoning or those for answering."""
    published = asdict(REASONING if parameters.reasoning else ANSWERING)
    return parameters.model_copy(
        update={name: value for name, value in published.items() if getattr(parameters, name) is None}
    )
