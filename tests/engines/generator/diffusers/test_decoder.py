"""The fused decoder of Wan's VAE decodes what Diffusers' own does, to within the rounding of float32."""

from typing import Any

import pytest

from benchmarks.generator.true_generator import NANO_VAE
from cosmos_batch.engines.library_imports import import_diffusers

SMALL = {**NANO_VAE, "base_dim": 16, "decoder_base_dim": 16, "dim_mult": [1, 2, 4, 4]}
WITHOUT_PATCHES = {"is_residual": False, "patch_size": None, "in_channels": 3, "out_channels": 3}  # as Wan 2.1
HEIGHT, WIDTH, FRAMES = 4, 6, 6  # of the latents; each becomes 16 x 16 pixels


@pytest.fixture
def vae() -> Any:
    """Return a VAE with random weights in channels-last memory format, as on a GPU."""
    return random_vae(SMALL)


def random_vae(config: dict[str, Any]) -> Any:
    import torch

    import_diffusers()
    from diffusers import AutoencoderKLWan
    from diffusers.models.autoencoders.autoencoder_kl_wan import WanRMS_norm

    torch.manual_seed(0)
    vae = AutoencoderKLWan(**config).eval().requires_grad_(False)
    for module in vae.modules():
        if isinstance(module, WanRMS_norm):
            torch.nn.init.uniform_(module.gamma, 0.5, 1.5)
        if isinstance(module, torch.nn.Conv3d):
            module.to(memory_format=torch.channels_last_3d)
        elif isinstance(module, torch.nn.Conv2d):
            module.to(memory_format=torch.channels_last)
    return vae


def latents(vae: Any, frames: int = FRAMES) -> Any:
    import torch

    return torch.randn(1, vae.config.z_dim, frames, HEIGHT, WIDTH, generator=torch.Generator().manual_seed(1))


def decode(vae: Any, frames: int = FRAMES) -> Any:
    return vae.decode(latents(vae, frames)).sample


def fuse(vae: Any) -> None:
    from cosmos_batch.engines.generator.diffusers import decoder

    decoder.fuse_decoder(vae)


@pytest.mark.parametrize("at_once", [1, 2, 3, FRAMES])
@pytest.mark.parametrize("frames", [1, 2, FRAMES])
def test_chunks_of_any_length_decode_to_the_same_pixels(
    vae: Any, monkeypatch: pytest.MonkeyPatch, frames: int, at_once: int
) -> None:
    import torch

    expected = decode(vae, frames)
    assert expected.shape == (1, 3, 1 + 4 * (frames - 1), 16 * HEIGHT, 16 * WIDTH) and expected.std() > 0.1
    fuse(vae)
    pixels = at_once * 16 * HEIGHT * 16 * WIDTH
    monkeypatch.setattr("cosmos_batch.engines.generator.diffusers.decoder.PIXELS_AT_ONCE", pixels)
    torch.testing.assert_close(decode(vae, frames), expected, rtol=0, atol=1e-5)


def test_a_decoding_that_is_abandoned_keeps_nothing(vae: Any) -> None:
    fuse(vae)
    chunks = vae.decode_chunks(latents(vae))
    next(chunks)
    assert any(cached is not None for cached in vae._feat_map)
    chunks.close()
    assert all(cached is None for cached in vae._feat_map)


def test_a_vae_without_patches_decodes_to_the_same_pixels() -> None:
    import torch

    vae = random_vae({**SMALL, **WITHOUT_PATCHES, "scale_factor_spatial": 8})
    expected = decode(vae)
    fuse(vae)
    torch.testing.assert_close(decode(vae), expected, rtol=0, atol=1e-5)


def test_tiles_are_decoded_as_in_diffusers(vae: Any) -> None:
    import torch

    tiles = {"tile_sample_min_height": 32, "tile_sample_min_width": 32}
    vae.enable_tiling(**tiles, tile_sample_stride_height=24, tile_sample_stride_width=24)
    expected = decode(vae, 2)
    fuse(vae)
    torch.testing.assert_close(decode(vae, 2), expected, rtol=0, atol=1e-5)


def test_in_16_bit_the_pixels_are_not_further_from_exact_ones(vae: Any) -> None:
    import torch

    exact = decode(vae)
    narrow = vae.to(torch.bfloat16)
    inputs = latents(vae).to(torch.bfloat16)
    errors = []
    for _ in range(2):
        errors.append((narrow.decode(inputs).sample.float() - exact).norm())
        fuse(narrow)
    assert errors[1] <= 1.05 * errors[0]


def test_a_chunk_has_as_many_latent_frames_as_fit_the_pixels(vae: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fuse(vae)
    seen: list[int] = []
    forward = vae.decoder.forward

    def counted(features: Any, **caches: Any) -> Any:
        seen.append(features.shape[2])
        return forward(features, **caches)

    monkeypatch.setattr(vae.decoder, "forward", counted)
    for pixels, chunks in ((1, [1] * FRAMES), (2 * 64 * 96, [1, 2, 2, 1]), (3 * 64 * 96 - 1, [1, 2, 2, 1])):
        monkeypatch.setattr("cosmos_batch.engines.generator.diffusers.decoder.PIXELS_AT_ONCE", pixels)
        seen.clear()
        decode(vae)
        assert seen == chunks


def test_nothing_of_a_job_is_kept_after_it(vae: Any) -> None:
    fuse(vae)
    decode(vae)
    assert vae._feat_map == [None] * vae._conv_num


def test_what_is_upsampled_is_in_channels_last_memory_format(vae: Any) -> None:
    """In Diffusers' own format, the GPU rearranges it before the next convolution: it reads and writes it once more."""
    import torch

    from cosmos_batch.engines.generator.diffusers import decoder

    formats: list[bool] = []

    def check(_module: Any, _inputs: Any, output: Any) -> None:
        formats.append(output.is_contiguous(memory_format=torch.channels_last_3d))

    fuse(vae)
    for module in vae.decoder.modules():
        if isinstance(module, decoder.Upsampling | decoder.Shortcut | decoder.ActivatedNorm):
            module.register_forward_hook(check)
    decode(vae)
    assert len(formats) > 30 and all(formats)


def test_compiled_graphs_serve_any_size(vae: Any) -> None:
    """There is one of the sum, and one of the normalization for each number of channels."""
    import torch
    from torch._dynamo.testing import CompileCounter

    from cosmos_batch.engines.generator.diffusers import decoder

    expected = decode(vae)
    fuse(vae)
    torch._dynamo.reset()
    counter = CompileCounter()
    decoder.compile_decoder(vae, backend=counter)
    with torch.no_grad():
        torch.testing.assert_close(decode(vae), expected, rtol=0, atol=1e-5)
        decode(vae, 2)
    torch._dynamo.reset()
    widths = {one.gamma.numel() for one in vae.decoder.modules() if isinstance(one, decoder.ActivatedNorm)}
    assert counter.frame_count == 1 + len(widths) == 4


def test_zeros_are_normalized_to_zeros() -> None:
    import torch

    from cosmos_batch.engines.generator.diffusers.decoder import normalize_and_activate

    zeros = torch.zeros(3, 8, dtype=torch.bfloat16)
    assert torch.equal(normalize_and_activate(zeros, torch.zeros(8), torch.ones(8)), zeros)


def test_normalization_rounds_once(vae: Any) -> None:
    """In 16 bit, Diffusers rounds after each of five operations; the fused one is nearer to exact numbers."""
    import torch

    from cosmos_batch.engines.generator.diffusers.decoder import normalize_and_activate

    norm = vae.decoder.norm_out
    features = torch.randn(64, norm.gamma.numel(), generator=torch.Generator().manual_seed(1)).to(torch.bfloat16)
    gamma = norm.gamma.flatten()
    fused = normalize_and_activate(features, torch.zeros_like(gamma), gamma).float()
    exact, stepwise = (
        torch.nn.functional.silu(norm.to(kind)(features.to(kind)[:, :, None, None, None])).flatten(1).float()
        for kind in (torch.float32, torch.bfloat16)
    )
    assert (fused - exact).norm() < 0.7 * (stepwise - exact).norm()
    assert (fused - exact).norm() < 0.004 * exact.norm()
