"""The decoder of Wan's VAE, which Cosmos 3 uses, with fewer and larger operations (decision 041). The mathematics is
Diffusers' own.

Diffusers decodes one latent frame after the other, and passes over the data of each convolution many times: it adds
biases, normalizes, activates and pads in steps of their own, and rearranges them between two memory formats. For a
small video on an H100, the host needs as long to launch all this as the GPU for computing it.
"""

from collections.abc import Iterator
from typing import Any

import torch
from diffusers.models.autoencoders import autoencoder_kl_wan as wan
from torch import Tensor

PIXELS_AT_ONCE = 3 * 320 * 192
"""The most pixels that the latent frames which are decoded at once may have together, such as three frames of 320x192.
A frame that has more is decoded alone. The largest tensors for so many pixels take about 1 GiB by their shapes, which
is within what a plan counts on for a video of 320x192 (`PEAKS_OF_DIFFUSERS`)."""


def normalize_and_activate(features: Tensor, bias: Tensor, gamma: Tensor) -> Tensor:
    """Return SiLU of features [N, C] plus a bias [C], normalized to rows whose root mean square is 1, times gamma [C].

    It is computed in float32, and rounded once.
    """
    wide = features.float() + bias.float()
    # Without a least value, zeros would be multiplied by infinity.
    mean_square = wide.square().mean(dim=1, keepdim=True).clamp(min=1e-30)
    return torch.nn.functional.silu(wide * torch.rsqrt(mean_square) * gamma.float()).to(features.dtype)


def add_biased(features: Tensor, bias: Tensor, shortcut: Tensor) -> Tensor:
    """Return the sum of features [N, C], a bias [C] and a shortcut [N, C], computed in float32 and rounded once."""
    return (features.float() + bias.float() + shortcut.float()).to(features.dtype)


class ActivatedNorm(wan.WanRMS_norm):
    """Wan's normalization together with the SiLU that follows it.

    Attributes
    ----------
    compute
        `normalize_and_activate`, or what torch compiles from it.
    """

    compute: Any = staticmethod(normalize_and_activate)

    def forward(self, features: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return features [B, C, T, H, W] plus a bias [C], normalized and activated, in channels-last memory format."""
        gamma = self.gamma.data.flatten()
        bias = torch.zeros_like(gamma) if bias is None else bias.data
        return _like_features(self.compute(_rows(features), bias, gamma), features)


class CausalConvolution(wan.WanCausalConv3d):
    """Wan's causal convolution, which pads height and width in the kernel instead of by a copy."""

    def forward(self, features: Tensor, before: Tensor | None = None) -> Tensor:
        """Convolve features [B, C, T, H, W]; `before` are the last frames of the chunk before, None for the first."""
        if before is not None and self._padding[4]:
            features = torch.cat([before, features], dim=2)
        return self.convolved(features, 0 if before is None else before.shape[2], self.bias)

    def convolved(self, features: Tensor, before: int, bias: Tensor | None) -> Tensor:
        """Convolve features of which `before` frames are of the chunk before, and add the bias, if any."""
        if missing := max(self._padding[4] - before, 0):
            features = torch.nn.functional.pad(features, (0, 0, 0, 0, missing, 0))
        padding = (0, self._padding[2], self._padding[0])
        convolved: Tensor = torch.nn.functional.conv3d(features, self.weight, bias, self.stride, padding)
        return convolved


class ResidualBlock(wan.WanResidualBlock):
    """Wan's residual block with `ActivatedNorm`s. The biases of its convolutions are added by what comes after these.

    PyTorch would add each of them in a pass of its own over all data.

    Attributes
    ----------
    add
        `add_biased`, or what torch compiles from it.
    """

    add: Any = staticmethod(add_biased)

    def forward(self, features: Tensor, feat_cache: Any, feat_idx: Any) -> Tensor:
        """Return a block's output for features [B, C, T, H, W]. The caches from `feat_idx[0]` on are of its two
        convolutions: the last frames that these convolved in the chunk before."""
        first = _convolved_after(self.conv1, self.norm1(features), feat_cache, feat_idx)
        second = _convolved_after(self.conv2, self.norm2(first, self.conv1.bias), feat_cache, feat_idx)
        shortcut = self.conv_shortcut(features)
        return _like_features(self.add(_rows(second), self.conv2.bias.data, _rows(shortcut)), second)


def _convolved_after(convolution: CausalConvolution, features: Tensor, feat_cache: Any, feat_idx: Any) -> Tensor:
    """Convolve features after those that are cached at `feat_idx[0]`, without the bias; count up, and cache the last
    frames."""
    index, before = feat_idx[0], feat_cache[feat_idx[0]]
    feat_idx[0] += 1
    joined = features if before is None else torch.cat([before, features], dim=2)
    feat_cache[index] = joined[:, :, -wan.CACHE_T :].clone()
    return convolution.convolved(joined, joined.shape[2] - features.shape[2], bias=None)


def _rows(features: Tensor) -> Tensor:
    """Return features [B, C, T, H, W] as rows of channels [N, C], which are not copied in channels-last memory format.

    Of rows, one compiled graph serves all sizes. For a view, torch compiles again for each layout of the tensor that it
    is a view of; `data` is none, and has no gradient.
    """
    return features.movedim(1, -1).flatten(0, -2).contiguous().data


def _like_features(rows: Tensor, features: Tensor) -> Tensor:
    """Undo `_rows` of these features."""
    return rows.view(features.movedim(1, -1).shape).movedim(-1, 1)


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
        pixels = torch.cat([*self.decode_chunks(latents)], dim=2)
        return wan.DecoderOutput(sample=pixels) if return_dict else (pixels,)

    @torch.no_grad()
    def decode_chunks(self, latents: Tensor) -> Iterator[Tensor]:
        """Decode latents [B, z, T, H, W], and yield pixels between -1 and 1 of a chunk of frames at a time."""
        self.clear_cache()
        latents = self.post_quant_conv(latents)
        side = self.config.scale_factor_spatial
        at_once = max(1, PIXELS_AT_ONCE // (latents.shape[3] * side * latents.shape[4] * side))
        try:
            yield self._decode_chunk(latents[:, :, :1], first_chunk=True)
            for start in range(1, latents.shape[2], at_once):
                yield self._decode_chunk(latents[:, :, start : start + at_once])
        finally:
            self.clear_cache()

    def _decode_chunk(self, latents: Tensor, **which: bool) -> Tensor:
        self._conv_idx = [0]
        decoded = self.decoder(latents, feat_cache=self._feat_map, feat_idx=self._conv_idx, **which)
        pixels: Tensor = wan.unpatchify(decoded, patch_size=self.config.patch_size or 1)
        return pixels.clamp_(-1.0, 1.0)


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
            module.__class__ = ResidualBlock
    if isinstance(vae.decoder.nonlinearity, torch.nn.SiLU):
        vae.decoder.norm_out.__class__ = ActivatedNorm
        vae.decoder.nonlinearity = torch.nn.Identity()


def compile_decoder(vae: Any, **options: Any) -> None:
    """Have torch compile what the decoder computes between convolutions, at the first call.

    There is one graph of the normalization for each number of channels, which makes its kernel several times as fast,
    and one of the sum; they serve videos of any size.
    """
    normalize, add = (
        torch.compile(function, fullgraph=True, dynamic=True, **options)
        for function in (normalize_and_activate, add_biased)
    )

    def normalize_channels(rows: Tensor, *others: Tensor) -> Any:
        torch._dynamo.mark_static(rows, 1)
        return normalize(rows, *others)

    for module in vae.decoder.modules():
        if isinstance(module, ActivatedNorm):
            module.compute = normalize_channels
        elif isinstance(module, ResidualBlock):
            module.add = add


def uncompile_decoder(vae: Any) -> None:
    """Undo `compile_decoder`."""
    for module in vae.decoder.modules():
        if isinstance(module, ActivatedNorm):
            module.compute = normalize_and_activate
        elif isinstance(module, ResidualBlock):
            module.add = add_biased
