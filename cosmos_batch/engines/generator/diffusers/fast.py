"""What makes a model of Diffusers faster while what it computes stays the same, and how it is made ready.

Importing this module imports no library of it.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from cosmos_batch.engines.journal import Journal


@dataclass(frozen=True)
class Measures:
    """Which of them are taken: all that are worth it, unless somebody measures what each is worth.

    Attributes
    ----------
    read_once
        The prompt is read once for each job, not in every step; see `diffusers_understanding`.
    compiled
        The transformer's layers are compiled, on a GPU.
    attention
        cuDNN's attention first, on a GPU; what it cannot do goes to PyTorch's own.
    channels_last
        The VAE's convolutions find the channels of a pixel side by side.
    """

    read_once: bool = True
    compiled: bool = True
    attention: bool = True
    channels_last: bool = False


def take(omni: Any, measures: Measures, device: str) -> None:
    """Take them on a loaded `Cosmos3OmniPipeline`; its weights stay where they are."""
    import torch

    if measures.read_once:
        # It imports Diffusers' transformers, which an engine may not before torchvision.
        from cosmos_batch.engines.generator.diffusers.understanding import read_once

        read_once(omni.transformer)
    if measures.compiled and device == "cuda":
        compile_layers(omni.transformer)
    if measures.channels_last:
        formats: dict[Any, Any] = {
            torch.nn.Conv3d: torch.channels_last_3d,
            torch.nn.Conv2d: torch.channels_last,
        }
        for module in omni.vae.modules():
            for kind, memory_format in formats.items():
                if isinstance(module, kind):
                    module.to(memory_format=memory_format)


def compile_layers(transformer: Any, **options: Any) -> None:
    """Compile the layers at their first call: one graph for all of them, and for all sizes and prompts."""
    transformer.compile_repeated_blocks(fullgraph=True, dynamic=True, **options)


def leave_compiled(transformer: Any) -> None:
    """Have the layers run as they are written again."""
    for layer in transformer.layers:
        layer._compiled_call_impl = None


@contextmanager
def working(omni: Any, measures: Measures, device: str) -> Iterator[None]:
    """While one job is made."""
    with ExitStack() as stack:
        if measures.attention and device == "cuda":
            from torch.nn.attention import SDPBackend, sdpa_kernel

            order = ("CUDNN_ATTENTION", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH")
            stack.enter_context(sdpa_kernel([getattr(SDPBackend, name) for name in order], set_priority=True))
        if measures.read_once:
            stack.enter_context(omni.transformer.reading())
        yield


def warm_up(omni: Any, measures: Measures, device: str, journal: Journal) -> None:
    """Make the smallest video of two steps, on a GPU: libraries start, kernels load, and the layers are compiled.

    Where they cannot be compiled they run as they are written.
    """
    import torch

    if device != "cuda":
        return
    try:
        _make_least(omni, measures, device)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        if not measures.compiled:
            raise
        journal.note(f"the layers are not compiled, and slower for it: {type(error).__name__}: {error}")
        leave_compiled(omni.transformer)
        _make_least(omni, measures, device)


def _make_least(omni: Any, measures: Measures, device: str) -> None:
    with working(omni, measures, device):
        omni(
            prompt="Warm up.",
            negative_prompt="Nothing.",
            num_frames=5,
            height=64,
            width=64,
            num_inference_steps=2,
            guidance_scale=6.0,  # both branches: prompts of two lengths
            enable_safety_check=False,
            output_type="pt",
        )
