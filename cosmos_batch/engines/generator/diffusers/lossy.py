"""Modes that make a Diffusers pipeline faster and change its output (decision 063): off unless configured.

Their effect on quality was not measured, because that needs the released weights. Importing this module imports neither
torch nor Diffusers.
"""

from collections.abc import Sequence
from typing import Any

from cosmos_batch.catalogue.generation import LossyMode
from cosmos_batch.catalogue.hardware import HOPPER
from cosmos_batch.engines.gpus import compute_capability
from cosmos_batch.engines.lossy_modes import GENERATORS, refuse_without_fp8, unavailable

# The linear modules of a layer's noise stream, which are computed in every step. Those of the text stream are not.
_IN_FP8 = (
    "self_attn.add_q_proj",
    "self_attn.add_k_proj",
    "self_attn.add_v_proj",
    "self_attn.to_add_out",
    "mlp_moe_gen",
)


def refuse_lossy_modes(modes: Sequence[LossyMode], offload: bool) -> None:
    """Raise Failure (EngineFailed) if this machine cannot run one of the modes."""
    if modes and offload:
        raise unavailable(modes, "the layers wait in the host's memory", "Take a GPU with more memory", GENERATORS)
    if "fp8" in modes:
        refuse_without_fp8(GENERATORS)
    if "fp8Attention" in modes and (compute_capability() or (0, 0))[0] != HOPPER:
        remedy = "Take an H100 or H200"
        raise unavailable(["fp8Attention"], "FlashAttention 3 does not run on this machine", remedy, GENERATORS)


def apply_lossy_modes(omni: Any, modes: Sequence[LossyMode]) -> None:
    """Apply the modes to a loaded `Cosmos3OmniPipeline` whose prompts are cached and whose layers have not run yet.

    Raises Failure (EngineFailed) if FlashAttention 3 was not loaded and is to compute in FP8.
    """
    if "stepCache" in modes:
        # Imported here because it imports Diffusers' models, which must come after `import_torchvision`.
        from cosmos_batch.engines.generator.diffusers.transformer import StepCachingTransformer

        omni.transformer.__class__ = StepCachingTransformer
    if "fp8" in modes:
        quantize_to_fp8(omni.transformer)
    if "fp8Attention" in modes:
        attend_in_fp8(omni.transformer)


def quantize_to_fp8(transformer: Any) -> None:
    """Have the noise stream of each layer multiply in FP8, with a scale for each row.

    Its weights then take half as much memory. The text stream, the embeddings and everything else stay unchanged.
    """
    import torch
    from torchao.quantization import Float8DynamicActivationFloat8WeightConfig, PerRow, quantize_

    def is_to_quantize(module: Any, name: str) -> bool:
        # Weights that are in FP8 already are of another type than Parameter.
        is_unquantized = isinstance(module, torch.nn.Linear) and type(module.weight) is torch.nn.Parameter
        return is_unquantized and any(part in name for part in _IN_FP8)

    # `set_inductor_config` would change compiler settings for all other layers too, and lengthen the start.
    settings = Float8DynamicActivationFloat8WeightConfig(granularity=PerRow(), set_inductor_config=False)
    quantize_(transformer.layers, settings, is_to_quantize)


def attend_in_fp8(transformer: Any) -> None:
    """Have FlashAttention 3 compute the noise stream's attention in FP8.

    Raises Failure (EngineFailed) if FlashAttention 3 is not loaded.
    """
    from cosmos_batch.engines.generator.diffusers.fp8_attention import attention_in_fp8

    kernel = transformer.layers[0].kernel
    if kernel is None:
        why = "FlashAttention 3 (fa3-fwd) could not be loaded, as the worker's log says"
        raise unavailable(["fp8Attention"], why, "Use the container image", GENERATORS)
    for layer in transformer.layers:
        layer.kernel = attention_in_fp8(kernel, layer)
