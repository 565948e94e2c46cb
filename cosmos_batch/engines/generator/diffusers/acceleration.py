"""Make a Diffusers pipeline faster without changing its output (decision 041), and warm up a loaded model.

Modes that do change the output are in `lossy`. Importing this module imports neither torch nor Diffusers.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from cosmos_batch.catalogue.hardware import HOPPER
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.engines.journal import Journal


@dataclass(frozen=True)
class Accelerations:
    """The accelerations that are used: all of them, except where a benchmark measures one of them.

    Attributes
    ----------
    cached_prompts
        Keys and values of a prompt are computed once for each job, not in every step; see `transformer`.
    shared_timestep
        The timestep of a pass is embedded once, not once for each token; see `transformer`.
    asynchronous
        In a step of an image, a video or sound, the host waits for no result of the GPU; see `asynchronous`. Frames are
        decoded in chunks; see `frames`. A robot's actions still wait, and distilled models have another scheduler.
    partial_encoding
        The VAE encodes only the frames that condition the generation; see `encode_conditioning_only`.
    flash_attention
        FlashAttention 3 computes the attention of the noise stream, on a GPU that it supports.
    compiled
        The transformer's layers, and what a fused decoder computes between convolutions, are compiled, on a GPU.
    channels_last
        The weights of the VAE's convolutions are in channels-last memory format, on a GPU.
    fused_decoder
        The VAE's decoder needs fewer operations, on a GPU; see `decoder`. In 16 bit it rounds otherwise.
    """

    cached_prompts: bool = True
    shared_timestep: bool = True
    asynchronous: bool = True
    partial_encoding: bool = True
    flash_attention: bool = True
    compiled: bool = True
    channels_last: bool = True
    fused_decoder: bool = True


def accelerate(omni: Any, accelerations: Accelerations, device: str, journal: Journal) -> None:
    """Apply the accelerations to a loaded `Cosmos3OmniPipeline`. No weights are copied."""
    if accelerations.cached_prompts:
        # Imported here because it imports Diffusers' models, which must come after `import_torchvision`.
        from cosmos_batch.engines.generator.diffusers.transformer import cache_prompts

        cache_prompts(omni.transformer)
    if accelerations.shared_timestep:
        from cosmos_batch.engines.generator.diffusers.transformer import share_timestep

        share_timestep(omni.transformer)
    if accelerations.asynchronous:
        from cosmos_batch.engines.generator.diffusers.asynchronous import mask_velocities

        omni._mask_velocity_predictions = mask_velocities
    if accelerations.flash_attention and device == "cuda":
        set_attention(omni, flash_attention(journal))
    if accelerations.compiled and device == "cuda":
        compile_layers(omni.transformer)
    if device == "cuda":
        _accelerate_vae(omni.vae, accelerations)


def _accelerate_vae(vae: Any, accelerations: Accelerations) -> None:
    import torch

    if accelerations.channels_last:
        formats: dict[Any, Any] = {
            torch.nn.Conv3d: torch.channels_last_3d,
            torch.nn.Conv2d: torch.channels_last,
        }
        for module in vae.modules():
            for kind, memory_format in formats.items():
                if isinstance(module, kind):
                    module.to(memory_format=memory_format)
    if accelerations.fused_decoder:
        from cosmos_batch.engines.generator.diffusers.decoder import compile_decoder, fuse_decoder

        fuse_decoder(vae)
        if accelerations.compiled:
            compile_decoder(vae)


def compile_layers(transformer: Any, **options: Any) -> None:
    """Have torch compile the layers at their first call: a graph for each stream, and for all layers and sizes."""
    import torch

    transformer.compile_repeated_blocks(fullgraph=True, dynamic=True, **options)
    for layer in transformer.layers:
        if hasattr(layer, "read"):  # of a `TwoStreamLayer`
            layer.read = torch.compile(layer.read, fullgraph=True, dynamic=True, **options)


def disable_compilation(omni: Any) -> None:
    """Run everything uncompiled from here on."""
    for layer in omni.transformer.layers:
        layer._compiled_call_impl = None
        vars(layer).pop("read", None)
    # Imported here because it imports Diffusers' models, which must come after `import_torchvision`.
    from cosmos_batch.engines.generator.diffusers.decoder import uncompile_decoder

    uncompile_decoder(omni.vae)


def set_attention(omni: Any, kernel: Callable[..., Any] | None) -> None:
    """Use a kernel of FlashAttention 3 from here on, or PyTorch's own attention."""
    for layer in omni.transformer.layers:
        layer.kernel = kernel


@contextmanager
def accelerated(omni: Any, accelerations: Accelerations, conditioning: int | None = None) -> Iterator[None]:
    """Apply those accelerations that last for one job. `conditioning` is its number of latent frames that are encoded
    from the input; None means all of them."""
    with ExitStack() as stack:
        if accelerations.cached_prompts:
            stack.enter_context(omni.transformer.prompt_cache())
        if accelerations.partial_encoding and conditioning is not None:
            stack.enter_context(encode_conditioning_only(omni, conditioning))
        yield


_NO_FLASH_ATTENTION, _UNCOMPILED = "attention is PyTorch's own", "the layers and the decoder are not compiled"
_ATTEMPTS = ((), (_NO_FLASH_ATTENTION,), (_UNCOMPILED,), (_NO_FLASH_ATTENTION, _UNCOMPILED))
"""A warm-up disables each of these in turn until it succeeds. Their words are those of the worker's log."""


def warm_up(
    omni: Any, accelerations: Accelerations, device: str, journal: Journal, *, needs_flash_attention: bool = False
) -> None:
    """On a GPU, generate a small video in two steps, so that libraries start, kernels load and layers are compiled.

    If that fails, it is tried without FlashAttention, unless that is needed, then without compilation, then without
    both. The journal notes what was disabled, and why. Raises torch.OutOfMemoryError, for which neither is the cause,
    and what the last attempt raises.
    """
    import torch

    if device != "cuda":
        return
    is_optional = accelerations.flash_attention and not needs_flash_attention
    kernel = omni.transformer.layers[0].kernel if is_optional else None
    available = {_NO_FLASH_ATTENTION: kernel is not None, _UNCOMPILED: accelerations.compiled}
    attempts = [attempt for attempt in _ATTEMPTS if all(available[disabled] for disabled in attempt)]
    failures: dict[tuple[str, ...], str] = {}
    for attempt in attempts:
        if kernel is not None:
            set_attention(omni, None if _NO_FLASH_ATTENTION in attempt else kernel)
        if _UNCOMPILED in attempt:
            disable_compilation(omni)
        try:
            _generate_small(omni, accelerations)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            if attempt == attempts[-1]:
                raise
            failures[attempt] = f"{type(error).__name__}: {error}"
        else:
            for disabled in attempt:
                # Why this is disabled is the error of the attempt that differed in this alone, and still had it.
                why = failures[tuple(other for other in attempt if other != disabled)]
                journal.note(f"{disabled}, and slower for it: {why}")
            return


def _generate_small(omni: Any, accelerations: Accelerations) -> None:
    import torch

    shapes: Any = torch.fx.experimental._config
    # Duck shaping gives sizes that happen to be equal one symbol: a sequence as long as a width of the model would be
    # compiled for that length alone.
    with accelerated(omni, accelerations), shapes.patch(use_duck_shape=False):
        omni(
            prompt="Warm up.",
            negative_prompt="Nothing.",
            # These are 400 tokens, more than two for each of a GPU's multiprocessors. With fewer, torch divides rows of
            # more than 8,192 numbers among several kernels, which is slow for a video's tokens. `fp8` has such rows.
            num_frames=17,
            height=256,
            width=320,
            num_inference_steps=2,
            guidance_scale=6.0,  # above 1, both prompts are computed: two lengths
            enable_safety_check=False,
            output_type="pt",
        )


def flash_attention(journal: Journal) -> Callable[..., Any] | None:
    """Return FlashAttention 3's kernel; None if the GPU is no Hopper, or if it cannot be loaded, which the journal
    notes."""
    import torch

    if torch.cuda.get_device_capability()[0] != HOPPER:
        return None
    try:
        kernel: Callable[..., Any] = import_module("fa3_fwd_interface").flash_attn_func
    except (ImportError, OSError) as error:
        cause = f"{type(error).__name__}: {error}"
        journal.note(f"attention is PyTorch's own, and slower for it, until fa3-fwd is installed: {cause}")
        return None
    return kernel


def conditioning_latents(generation: Generation) -> int | None:
    """Return how many latent frames, from the first, are encoded from the input.

    None means all of them; also for a transfer, whose pipeline encodes its controls by itself.
    """
    if generation.transfer or generation.mode == "inverse_dynamics":
        return None
    if generation.conditioning:
        return max(generation.conditioning.frames) + 1
    return 0 if generation.mode in ("t2i", "t2v") else 1


@contextmanager
def encode_conditioning_only(omni: Any, conditioning: int) -> Iterator[None]:
    """Have a `Cosmos3OmniPipeline` encode only the first `conditioning` latent frames; the others are zeros.

    Diffusers encodes a video of full length, padded with zeros or with the last input frame, and then replaces by noise
    all that does not condition the generation. Its VAE is causal, so the first latents are the same without the rest.
    """
    encode = omni._encode_video

    def encode_first(video: Any) -> Any:
        """Encode a video of [B, 3, T, H, W] to latents of [B, z, 1 + (T - 1) // 4, H // 16, W // 16]."""
        batch, _, frames, height, width = video.shape
        vae = omni.vae.config
        across, along = vae.scale_factor_spatial, vae.scale_factor_temporal
        shape = (batch, vae.z_dim, 1 + (frames - 1) // along, height // across, width // across)
        latents = video.new_zeros(shape)
        if conditioning:
            latents[:, :, :conditioning] = encode(video[:, :, : 1 + along * (conditioning - 1)])
        return latents

    omni._encode_video = encode_first
    try:
        yield
    finally:
        del omni._encode_video
