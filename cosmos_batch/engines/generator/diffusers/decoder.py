"""The decoder of Wan's VAE, which Cosmos 3 uses, with fewer and larger operations (decision 041). The mathematics is
Diffusers' own.

Diffusers decodes one latent frame after the other, and passes over the data of each convolution many times: it
normalizes, activates and pads in steps of their own, and rearranges them between two memory formats. For a small video
on an H100, the host needs as long to launch all this as the GPU for computing it.
"""

from typing import Any

import torch
from diffusers.models.autoencoders import autoencoder_kl_wan as wan
from torch import Tensor

PIXELS_AT_ONCE = 3 * 320 * 192
"""The most pixels that the latent frames which are decoded at once may have together, such as three frames of 320x192.
A frame that has more is decoded alone. The largest tensors for so many pixels take about 1 GiB by their shapes, which
is within what a plan counts on for a video of 320x192 (`PEAKS_OF_DIFFUSERS`)."""


def normalize_and_activate(features: Tensor, gamma: Tensor) -> Tensor:
    """Return SiLU of features [N, C] whose rows are normalized to a root mean square of 1, and multiplied by gamma [C].

    It is computed in float32, and rounded once.
    """
    wide = features.float()
    # Without a least value, zeros would be multiplied by infinity.
    mean_square = wide.square().mean(dim=1, keepdim=True).clamp(min=1e-30)
    return torch.nn.functional.silu(wide * torch.rsqrt(mean_square) * gamma.float()).to(features.dtype)


class ActivatedNorm(wan.WanRMS_norm):
    """Wan's normalization together with the SiLU that follows it.

    Attributes
    ----------
    compute
        `normalize_and_activate`, or what torch compiles from it.
    """

    compute: Any = staticmethod(normalize_and_activate)

    def forward(self, features: Tensor) -> Tensor:
        """Return the normalized and activated features [B, C, T, H, W], in channels-last memory format."""
        channels_last = features.movedim(1, -1)
        # Rows of channels are not copied in this format, and one graph serves all sizes. For a view, torch compiles
        # again for each layout of the tensor that it is a view of; `data` is none, and has no gradient.
        rows = channels_last.flatten(0, -2).contiguous().data
        activated: Tensor = self.compute(rows, self.gamma.data.flatten())
        return activated.view(channels_last.shape).movedim(-1, 1)


class CausalConvolution(wan.WanCausalConv3d):
    """Wan's causal convolution, which pads height and width in the kernel instead of by a copy."""

    def forward(self, features: Tensor, before: Tensor | None = None) -> Tensor:
        """Convolve features [B, C, T, H, W]; `before` are the last frames of the chunk before, None for the first."""
        missing = self._padding[4]
        if before is not None and missing:
            features = torch.cat([before, features], dim=2)
            missing -= before.shape[2]
        if missing:
            features = torch.nn.functional.pad(features, (0, 0, 0, 0, missing, 0))
        padding = (0, self._padding[2], self._padding[0])
        convolved: Tensor = torch.nn.functional.conv3d(features, self.weight, self.bias, self.stride, padding)
        return convolved


class Upsampling(wan.WanResample):
    """Wan's upsampling, which doubles height and width, and the frames too if it has a `time_conv`.

    Numbers are copied to all their places at once, in channels-last memory format.
    """

    def forward(self, features: Tensor, feat_cache: Any, feat_idx: Any) -> Tensor:
        """Upsample features [B, C, T, H, W]; `feat_cache[feat_idx[0]]` are the last frames of the chunk before."""
        rows = features.movedim(1, -1)
        frames = rows.unsqueeze(2)  # [B, T, frames of each, H, W, C]
        if self.mode == "upsample3d":
            index, before = feat_idx[0], feat_cache[feat_idx[0]]
            feat_idx[0] += 1
            if before is None:  # the first latent frame becomes a single frame
                feat_cache[index] = torch.zeros_like(rows[:, :1]).repeat(1, wan.CACHE_T, 1, 1, 1).movedim(-1, 1)
            else:
                frames = self.time_conv(features, before).movedim(1, -1).unflatten(-1, (2, -1)).movedim(-2, 2)
                feat_cache[index] = torch.cat([before, features], dim=2)[:, :, -wan.CACHE_T :].clone()
        images = self.resample[1](_doubled(frames.flatten(0, 2)).movedim(-1, 1))
        upsampled: Tensor = images.movedim(1, -1).unflatten(0, (features.shape[0], -1)).movedim(-1, 1)
        return upsampled


class Shortcut(wan.DupUp3D):
    """Wan's shortcut past a block that upsamples, in channels-last memory format: it repeats numbers."""

    def forward(self, features: Tensor, first_chunk: bool = False) -> Tensor:
        """Upsample features [B, C, T, H, W] to `out_channels`; each channel becomes some of a block's numbers."""
        rows = features.movedim(1, -1)
        each = rows.reshape(*rows.shape[:-1], self.out_channels, -1, 1)
        repeated = each.expand(*each.shape[:-1], self.repeats)
        # [B, T, H, W, C, frames of each, rows of each, columns of each]
        parts = repeated.reshape(*each.shape[:-2], self.factor_t, self.factor_s, self.factor_s)
        upsampled: Tensor = (
            parts.permute(0, 1, 5, 2, 6, 3, 7, 4).flatten(5, 6).flatten(3, 4).flatten(1, 2).movedim(-1, 1)
        )
        return upsampled[:, :, self.factor_t - 1 :] if first_chunk else upsampled


def _doubled(images: Tensor) -> Tensor:
    """Return images [N, H, W, C] with each pixel copied to two rows and two columns."""
    count, height, width, channels = images.shape
    wide = images[:, :, None, :, None].expand(count, height, 2, width, 2, channels)
    return wide.reshape(count, 2 * height, 2 * width, channels)


class ChunkDecodingVae(wan.AutoencoderKLWan):
    """Wan's VAE, which decodes several latent frames of a small video at once."""

    def _decode(self, latents: Tensor, return_dict: bool = True) -> Any:
        """Decode latents [B, z, T, H, W] to pixels between -1 and 1: with Cosmos 3's factors, they are
        [B, 3, 1 + 4 * (T - 1), 16 * H, 16 * W]. In tiles, it decodes as Diffusers does."""
        if self.use_tiling:
            return super()._decode(latents, return_dict)
        self.clear_cache()
        latents = self.post_quant_conv(latents)
        side = self.config.scale_factor_spatial
        at_once = max(1, PIXELS_AT_ONCE // (latents.shape[3] * side * latents.shape[4] * side))
        chunks = [self._decode_chunk(latents[:, :, :1], first_chunk=True)]
        for start in range(1, latents.shape[2], at_once):
            chunks.append(self._decode_chunk(latents[:, :, start : start + at_once]))
        self.clear_cache()
        pixels = torch.cat(chunks, dim=2).clamp_(-1.0, 1.0)
        return wan.DecoderOutput(sample=pixels) if return_dict else (pixels,)

    def _decode_chunk(self, latents: Tensor, **which: bool) -> Tensor:
        self._conv_idx = [0]
        decoded = self.decoder(latents, feat_cache=self._feat_map, feat_idx=self._conv_idx, **which)
        pixels: Tensor = wan.unpatchify(decoded, patch_size=self.config.patch_size or 1)
        return pixels


def fuse_decoder(vae: Any) -> None:
    """Turn a loaded `AutoencoderKLWan` into a `ChunkDecodingVae`, by changing classes; no weights are copied.

    It is fast if the weights of its convolutions are in channels-last memory format.
    """
    vae.__class__ = ChunkDecodingVae
    for module in vae.decoder.modules():
        if type(module) is wan.WanCausalConv3d:
            module.__class__ = CausalConvolution
        elif type(module) is wan.WanResample:
            module.__class__ = Upsampling
        elif type(module) is wan.DupUp3D:
            module.__class__ = Shortcut
        elif isinstance(module, wan.WanResidualBlock) and isinstance(module.nonlinearity, torch.nn.SiLU):
            module.norm1.__class__ = module.norm2.__class__ = ActivatedNorm
            module.nonlinearity = torch.nn.Identity()
    if isinstance(vae.decoder.nonlinearity, torch.nn.SiLU):
        vae.decoder.norm_out.__class__ = ActivatedNorm
        vae.decoder.nonlinearity = torch.nn.Identity()


def compile_norms(vae: Any, **options: Any) -> None:
    """Have torch compile what the decoder's normalizations compute, at their first call: one graph for all of them."""
    compiled = torch.compile(normalize_and_activate, fullgraph=True, dynamic=True, **options)
    for module in vae.decoder.modules():
        if isinstance(module, ActivatedNorm):
            module.compute = compiled


def uncompile_norms(vae: Any) -> None:
    """Undo `compile_norms`."""
    for module in vae.decoder.modules():
        if isinstance(module, ActivatedNorm):
            module.compute = normalize_and_activate
