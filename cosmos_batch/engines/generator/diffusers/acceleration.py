"""What makes a model of Diffusers faster while what it computes stays the same, and how it is made ready.

Importing this module imports no library of it.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.engines.journal import Journal

HOPPER = 9  # major compute capability of H100 and H200; those before and after gain nothing by it


@dataclass(frozen=True)
class Accelerations:
    """Which of them are taken: all, unless somebody accelerations what each is worth.

    Attributes
    ----------
    cached_prompts
        The prompt is read once for each job, not in every step; see `understanding`.
    partial_encoding
        No more of a video is encoded than is given; see `encoding`.
    flash_attention
        FlashAttention 3 attends in the layers that do not read the prompt, where there is one for the GPU; see
        `attention`.
    compiled
        The transformer's layers are compiled, on a GPU.
    channels_last
        The VAE's convolutions find the channels of a pixel side by side, on a GPU.
    """

    cached_prompts: bool = True
    partial_encoding: bool = True
    flash_attention: bool = True
    compiled: bool = True
    channels_last: bool = True


def accelerate(omni: Any, accelerations: Accelerations, device: str, journal: Journal) -> None:
    """Take them on a loaded `Cosmos3OmniPipeline`; its weights stay where they are."""
    import torch

    if accelerations.cached_prompts:
        # It imports Diffusers' transformers, which an engine may not before torchvision.
        from cosmos_batch.engines.generator.diffusers.transformer import cache_prompts

        cache_prompts(omni.transformer)
    if accelerations.flash_attention and device == "cuda":
        kernel = flash_attention(journal)
        for layer in omni.transformer.layers:
            layer.kernel = kernel
    if accelerations.compiled and device == "cuda":
        compile_layers(omni.transformer)
    if accelerations.channels_last and device == "cuda":
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


def disable_compilation(transformer: Any) -> None:
    """Have the layers run as they are written again."""
    for layer in transformer.layers:
        layer._compiled_call_impl = None


def disable_flash_attention(transformer: Any) -> None:
    """Have PyTorch's own attention attend again."""
    for layer in transformer.layers:
        layer.kernel = None


@contextmanager
def accelerated(omni: Any, accelerations: Accelerations, given: int | None = None) -> Iterator[None]:
    """While one job is made, which is given so many latent frames (all, if None)."""
    with ExitStack() as stack:
        if accelerations.cached_prompts:
            stack.enter_context(omni.transformer.reading())
        if accelerations.partial_encoding and given is not None:
            stack.enter_context(encode_conditioning_only(omni, given))
        yield


def warm_up(omni: Any, accelerations: Accelerations, device: str, journal: Journal) -> None:
    """Make the smallest video of two steps, on a GPU: libraries start, kernels load, and the layers are compiled.

    Where that fails FlashAttention is left, and where it fails again the layers run as they are written.
    """
    import torch

    if device != "cuda":
        return
    leaves: dict[str, Callable[[Any], None]] = {}
    if accelerations.flash_attention and omni.transformer.layers[0].kernel is not None:
        leaves["attention is PyTorch's own"] = disable_flash_attention
    if accelerations.compiled:
        leaves["the layers are not compiled"] = disable_compilation
    for what, leave in leaves.items():
        try:
            _make_least(omni, accelerations)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            journal.note(f"{what}, and slower for it: {type(error).__name__}: {error}")
            leave(omni.transformer)
        else:
            return
    _make_least(omni, accelerations)


def _make_least(omni: Any, accelerations: Accelerations) -> None:
    import torch

    shapes: Any = torch.fx.experimental._config
    # Else a length that is by chance as large as a width of the model is compiled for that size alone.
    with accelerated(omni, accelerations), shapes.patch(use_duck_shape=False):
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


def flash_attention(journal: Journal) -> Callable[..., Any] | None:
    """Its kernel for this machine's GPU; None where it has none, or cannot be loaded, of which the journal tells."""
    import torch

    if torch.cuda.get_device_capability()[0] != HOPPER:
        return None
    try:
        kernel: Callable[..., Any] = import_module("fa3_fwd_interface").flash_attn_func
    except (ImportError, OSError) as error:
        told = f"{type(error).__name__}: {error}"
        journal.note(f"attention is PyTorch's own, and slower for it, until fa3-fwd is installed: {told}")
        return None
    return kernel


def conditioning_latents(asked: Generation) -> int | None:
    """How many latent frames are given, from the first; None where all are, and in transfer, which encodes apart."""
    if asked.transfer or asked.mode == "inverse_dynamics":
        return None
    if asked.conditioning:
        return max(asked.conditioning.frames) + 1
    return 0 if asked.mode in ("t2i", "t2v") else 1


@contextmanager
def encode_conditioning_only(omni: Any, given: int) -> Iterator[None]:
    """While it lasts, a `Cosmos3OmniPipeline` encodes so many latent frames; the others are zeros."""
    encode = omni._encode_video

    def encode_first(video: Any) -> Any:
        """[B, 3, T, H, W] to [B, z, 1 + (T - 1) // 4, H // 16, W // 16]."""
        batch, _, frames, height, width = video.shape
        vae = omni.vae.config
        across, along = vae.scale_factor_spatial, vae.scale_factor_temporal
        shape = (batch, vae.z_dim, 1 + (frames - 1) // along, height // across, width // across)
        latents = video.new_zeros(shape)
        if given:
            latents[:, :, :given] = encode(video[:, :, : 1 + along * (given - 1)])
        return latents

    omni._encode_video = encode_first
    try:
        yield
    finally:
        del omni._encode_video
