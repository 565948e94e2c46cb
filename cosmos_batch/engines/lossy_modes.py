"""Keep an engine from loading on a machine that cannot run one of the lossy modes that it is configured with."""

from collections.abc import Sequence

from cosmos_batch.catalogue.generation import LossyMode
from cosmos_batch.catalogue.hardware import FP8_CAPABILITY, dotted
from cosmos_batch.contract.error import Failure
from cosmos_batch.engines.gpus import compute_capability

REASONERS = "app.pipelines.useNvidiaCosmos.modelsReason"
GENERATORS = "app.pipelines.useNvidiaCosmos3.modelsOmni"


def unavailable(modes: Sequence[LossyMode], why: str, remedy: str, block: str) -> Failure:
    """Return the error of an engine that cannot run these modes. `block` is where the pipeline is configured."""
    return Failure(
        "EngineFailed",
        f"{' and '.join(modes)}: impossible here, because {why}.",
        f"{remedy}; or take it out of `lossy` of the pipeline, below {block} in config.json, and deploy.",
    )


def refuse_without_fp8(block: str, mode: LossyMode = "fp8") -> None:
    """Raise Failure (EngineFailed) for a mode if a GPU of this machine does not multiply matrices in FP8."""
    capability = compute_capability()
    if capability is not None and capability >= FP8_CAPABILITY:
        return
    why = "there is no GPU" if capability is None else f"the GPU has compute capability {dotted(capability)}"
    least = dotted(FP8_CAPABILITY)
    remedy = f"Take one with compute capability {least} or later, such as L40S, H100 and H200"
    raise unavailable([mode], why, remedy, block)
