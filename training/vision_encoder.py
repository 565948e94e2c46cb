"""The vision encoder of Qwen3-VL as a PyTorch module that takes clips of one size (`training.model`)."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

_THETA = 10_000.0  # base of the rotary position embedding


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply rotary position embedding to `x` [..., length, head width], in float32."""
    first, second = x.float().chunk(2, dim=-1)
    turned = torch.cat([-second, first], dim=-1)
    return (x.float() * cos + turned * sin).to(x.dtype)


class VisionAttention(nn.Module):
    """Attention among the patches of one pair of frames."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """`x` is [pairs, patches, width]."""
        pairs, patches, width = x.shape
        q, k, v = self.qkv(x).view(pairs, patches, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        out = functional.scaled_dot_product_attention(rotate(q, cos, sin), rotate(k, cos, sin), v)
        return self.proj(out.transpose(1, 2).reshape(pairs, patches, width))


class VisionMLP(nn.Module):
    """Two layers with GELU between them."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.linear_fc1 = nn.Linear(width, inner)
        self.linear_fc2 = nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layers to the last dimension."""
        return self.linear_fc2(functional.gelu(self.linear_fc1(x), approximate="tanh"))


class VisionBlock(nn.Module):
    """One layer of the vision encoder."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        width = config["hidden_size"]
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.attn = VisionAttention(width, config["num_heads"])
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = VisionMLP(width, config["intermediate_size"])

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """`x` is [pairs, patches, width]."""
        x = x + self.attn(self.norm1(x), cos, sin)
        return x + self.mlp(self.norm2(x))


class Merger(nn.Module):
    """Merges a square of four patches into one token of the language model."""

    def __init__(self, config: dict[str, Any], norm_after: bool) -> None:
        super().__init__()
        self.merged = config["hidden_size"] * config["spatial_merge_size"] ** 2
        self.norm_after = norm_after
        self.norm = nn.LayerNorm(self.merged if norm_after else config["hidden_size"], eps=1e-6)
        self.linear_fc1 = nn.Linear(self.merged, self.merged)
        self.linear_fc2 = nn.Linear(self.merged, config["out_hidden_size"])

    def forward(self, x: Tensor) -> Tensor:
        """Convert [pairs, patches, width] to [pairs, tokens, language width]."""
        pairs = x.shape[0]
        if self.norm_after:
            x = self.norm(x.reshape(pairs, -1, self.merged))
        else:
            x = self.norm(x).reshape(pairs, -1, self.merged)
        return self.linear_fc2(functional.gelu(self.linear_fc1(x)))


class PatchEmbed(nn.Module):
    """A linear map of each patch, stored as a convolution."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        size = (config["temporal_patch_size"], config["patch_size"], config["patch_size"])
        self.proj = nn.Conv3d(config["in_channels"], config["hidden_size"], size, stride=size)

    def forward(self, patches: Tensor) -> Tensor:
        """Convert [..., values of a patch] to [..., width]."""
        return functional.linear(patches, self.proj.weight.flatten(1), self.proj.bias)


class Vision(nn.Module):
    """The vision encoder."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.config = config
        self.patch_embed = PatchEmbed(config)
        self.pos_embed = nn.Embedding(config["num_position_embeddings"], config["hidden_size"])
        self.blocks = nn.ModuleList([VisionBlock(config) for _ in range(config["depth"])])
        self.merger = Merger(config, norm_after=False)
        self.deepstack_merger_list = nn.ModuleList(
            [Merger(config, norm_after=True) for _ in config["deepstack_visual_indexes"]]
        )

    def forward(self, patches: Tensor, rows: int, columns: int) -> tuple[Tensor, list[Tensor]]:
        """Return the tokens of each pair of frames, and the deep features that are added to the first language layers.

        `patches` is [pairs, rows * columns, values], in the order of `in_merge_order`.
        """
        cos, sin = self._rotary(rows, columns, patches.device)
        x = self.patch_embed(patches) + self._positions(rows, columns).to(patches.dtype)
        deep = []
        for number, block in enumerate(self.blocks):
            x = block(x, cos, sin)
            if number in self.config["deepstack_visual_indexes"]:
                place = self.config["deepstack_visual_indexes"].index(number)
                deep.append(self.deepstack_merger_list[place](x))
        return self.merger(x), deep

    def _positions(self, rows: int, columns: int) -> Tensor:
        """Return the learned position embeddings, interpolated from their square grid, [patches, width]."""
        side = math.isqrt(self.config["num_position_embeddings"])
        grid = self.pos_embed.weight.view(1, side, side, -1).permute(0, 3, 1, 2).float()
        fitted = functional.interpolate(grid, (rows, columns), mode="bilinear", align_corners=True)
        return in_merge_order(fitted[0].permute(1, 2, 0), self.config["spatial_merge_size"])

    def _rotary(self, rows: int, columns: int, device: torch.device) -> tuple[Tensor, Tensor]:
        head = self.config["hidden_size"] // self.config["num_heads"]
        steps = torch.arange(0, head // 2, 2, device=device, dtype=torch.float32)
        inverse = 1.0 / _THETA ** (steps / (head // 2))
        row, column = torch.meshgrid(
            torch.arange(rows, device=device), torch.arange(columns, device=device), indexing="ij"
        )
        places = in_merge_order(torch.stack([row, column], dim=-1), self.config["spatial_merge_size"])
        angles = (places[..., None].float() * inverse).flatten(1)
        angles = torch.cat([angles, angles], dim=-1)
        return angles.cos(), angles.sin()


def in_merge_order(grid: Tensor, merge: int) -> Tensor:
    """Reorder [rows, columns, ...] to [rows * columns, ...], with the patches of one token next to each other."""
    rows, columns, *rest = grid.shape
    blocks = grid.reshape(rows // merge, merge, columns // merge, merge, *rest).transpose(1, 2)
    return blocks.reshape(rows * columns, *rest)


def patchify(frames: Tensor, config: dict[str, Any]) -> Tensor:
    """Convert frames, uint8 [clips, frames, height, width, 3], to patches [clips * pairs, patches, values].

    The number of frames is even. Pixels become -1 to 1, as the processor's mean and deviation of 0.5 make them.
    """
    size, merge, depth = config["patch_size"], config["spatial_merge_size"], config["temporal_patch_size"]
    clips, count, height, width, _ = frames.shape
    rows, columns = height // size // merge, width // size // merge
    x = frames.float() / 127.5 - 1.0
    x = x.view(clips, count // depth, depth, rows, merge, size, columns, merge, size, 3)
    x = x.permute(0, 1, 3, 6, 4, 7, 9, 2, 5, 8)
    return x.reshape(clips * count // depth, rows * columns * merge**2, -1)
