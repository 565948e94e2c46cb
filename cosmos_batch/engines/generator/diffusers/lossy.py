"""What makes a model of Diffusers faster and changes what it computes: off, unless its pipeline is configured with it.

How good what it makes is cannot be said without the true weights, and is not said. Importing this module imports no
library of it.
"""

from collections.abc import Sequence
from typing import Any

from cosmos_batch.catalogue.generation import LossyMode
from cosmos_batch.contract.error import Failure

FP8_CAPABILITY = (8, 9)  # the least compute capability of a GPU that multiplies matrices in FP8

# Of a layer, the matrix products that are computed in every step: those of the noise's stream.
_IN_FP8 = (
    "self_attn.add_q_proj",
    "self_attn.add_k_proj",
    "self_attn.add_v_proj",
    "self_attn.to_add_out",
    "mlp_moe_gen",
)


def refuse_lossy_modes(modes: Sequence[LossyMode], offload: bool) -> None:
    """Raises Failure (EngineFailed) where this machine cannot have them: no worker is less than it is called."""
    import torch

    if modes and offload:
        raise _not_here(modes, "the layers wait in the host's memory", "Take a GPU with more memory")
    if "fp8" not in modes:
        return
    least = ".".join(map(str, FP8_CAPABILITY))
    remedy = f"Take one with compute capability {least} or later, such as L40S, H100 and H200"
    if not torch.cuda.is_available():
        raise _not_here(["fp8"], "there is no GPU", remedy)
    if (has := torch.cuda.get_device_capability()) < FP8_CAPABILITY:
        raise _not_here(["fp8"], f"the GPU has compute capability {'.'.join(map(str, has))}", remedy)


def apply_lossy_modes(omni: Any, modes: Sequence[LossyMode]) -> None:
    """Change a loaded `Cosmos3OmniPipeline` that reads its prompts once. No layer is compiled before its first call."""
    if "stepCache" in modes:
        # It imports Diffusers' transformers, which an engine may not before torchvision.
        from cosmos_batch.engines.generator.diffusers.transformer import StepCachingTransformer

        omni.transformer.__class__ = StepCachingTransformer
    if "fp8" in modes:
        quantize_to_fp8(omni.transformer)


def quantize_to_fp8(transformer: Any) -> None:
    """Have the noise's stream of each layer multiply in FP8, with a scale for each row. Its weights take half as much
    memory then; the other stream, embeddings and all around them stay as they are.
    """
    import torch
    from torchao.quantization import Float8DynamicActivationFloat8WeightConfig, PerRow, quantize_

    def is_meant(module: Any, name: str) -> bool:
        has_weights = isinstance(module, torch.nn.Linear) and type(module.weight) is torch.nn.Parameter  # none in FP8
        return has_weights and any(part in name for part in _IN_FP8)

    # What it would set of the compiler besides concerns all other layers too, and makes the start longer.
    settings = Float8DynamicActivationFloat8WeightConfig(granularity=PerRow(), set_inductor_config=False)
    quantize_(transformer.layers, settings, is_meant)


def _not_here(modes: Sequence[LossyMode], why: str, remedy: str) -> Failure:
    return Failure(
        "EngineFailed",
        f"{' and '.join(modes)}: cannot be had here, for {why}.",
        f"{remedy}; or take it out of `lossy` of the pipeline, below app.pipelines.useNvidiaCosmos3.modelsOmni in "
        "config.json, and deploy.",
    )
