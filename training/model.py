"""Qwen3-VL as one small PyTorch module, for training many clips of one size at once.

Its parameters have the names and shapes of a Qwen3-VL checkpoint, and its logits are those of transformers'
`Qwen3VLForConditionalGeneration` (a test compares them). It differs in what it takes: a batch holds clips of one grid,
so that the vision encoder attends over whole tensors and not over each pair of frames in turn, and one sequence holds
several questions about its clip, each of which sees the clip and itself alone.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

_VISION_THETA = 10_000.0


class RMSNorm(nn.Module):
    """Root mean square normalisation over the last dimension."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalize in float32."""
        return functional.rms_norm(x.float(), self.weight.shape, self.weight.float(), self.eps).to(x.dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding of `x` [..., length, head width], in float32."""
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
        inverse = 1.0 / _VISION_THETA ** (steps / (head // 2))
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


class TextAttention(nn.Module):
    """Grouped-query attention with normalised queries and keys."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        width, self.head = config["hidden_size"], config["head_dim"]
        self.q_proj = nn.Linear(width, config["num_attention_heads"] * self.head, bias=False)
        self.k_proj = nn.Linear(width, config["num_key_value_heads"] * self.head, bias=False)
        self.v_proj = nn.Linear(width, config["num_key_value_heads"] * self.head, bias=False)
        self.o_proj = nn.Linear(config["num_attention_heads"] * self.head, width, bias=False)
        self.q_norm = RMSNorm(self.head, config["rms_norm_eps"])
        self.k_norm = RMSNorm(self.head, config["rms_norm_eps"])
        self.groups = config["num_attention_heads"] // config["num_key_value_heads"]

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        """`x` is [sequences, length, width]; `mask` is True where a query (row) sees a key (column)."""
        shape = (*x.shape[:2], -1, self.head)
        q = rotate(self.q_norm(self.q_proj(x).view(shape)).transpose(1, 2), cos, sin)
        k = rotate(self.k_norm(self.k_proj(x).view(shape)).transpose(1, 2), cos, sin)
        v = self.v_proj(x).view(shape).transpose(1, 2)
        k, v = (one.repeat_interleave(self.groups, dim=1) for one in (k, v))
        out = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o_proj(out.transpose(1, 2).flatten(2))


class TextMLP(nn.Module):
    """A gated layer with SiLU."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        width, inner = config["hidden_size"], config["intermediate_size"]
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layers to the last dimension."""
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class TextLayer(nn.Module):
    """One layer of the language model."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config["hidden_size"], config["rms_norm_eps"])
        self.self_attn = TextAttention(config)
        self.post_attention_layernorm = RMSNorm(config["hidden_size"], config["rms_norm_eps"])
        self.mlp = TextMLP(config)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        """`x` is [sequences, length, width]."""
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class Text(nn.Module):
    """The language model without its output layer, which shares the weights of its input layer."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.layers = nn.ModuleList([TextLayer(config) for _ in range(config["num_hidden_layers"])])
        self.norm = RMSNorm(config["hidden_size"], config["rms_norm_eps"])

    def forward(self, x: Tensor, positions: Tensor, mask: Tensor, seen: Tensor, deep: list[Tensor]) -> Tensor:
        """Return hidden states [sequences, length, width].

        `x` are embeddings, `positions` is [3, sequences, length] of time, row and column; `seen` are the places of the
        vision tokens in a sequence, the same in each, and `deep` what is added there after the first layers.
        """
        cos, sin = self._rotary(positions)
        for number, layer in enumerate(self.layers):
            x = layer(x, cos, sin, mask)
            if number < len(deep):
                x = x.index_add(1, seen, deep[number].to(x.dtype))
        return self.norm(x)

    def _rotary(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return the rotary embedding, interleaved: every third frequency follows the row, every third the column."""
        head, theta = self.config["head_dim"], self.config["rope_theta"]
        steps = torch.arange(0, head, 2, device=positions.device, dtype=torch.float32)
        angles = positions[..., None].float() / theta ** (steps / head)
        mixed = angles[0].clone()
        for axis in (1, 2):
            places = slice(axis, self.config["rope_scaling"]["mrope_section"][axis] * 3, 3)
            mixed[..., places] = angles[axis, ..., places]
        mixed = torch.cat([mixed, mixed], dim=-1)[:, None]
        return mixed.cos(), mixed.sin()


class Inner(nn.Module):
    """The part of a checkpoint whose names begin with `model`."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.visual = Vision(config["vision_config"])
        self.language_model = Text(config["text_config"])


class Reasoner(nn.Module):
    """The whole model; `state_dict` has the names of a checkpoint."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.config = config
        self.model = Inner(config)
        self.apply(_initialize)

    def see(self, frames: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return vision tokens [clips, tokens, width] and deep features of frames, uint8 [clips, frames, height, width,
        3]."""
        vision = self.config["vision_config"]
        clips, _, height, width, _ = frames.shape
        size = vision["patch_size"]
        tokens, deep = self.model.visual(patchify(frames, vision), height // size, width // size)
        return tokens.reshape(clips, -1, tokens.shape[-1]), [one.reshape(clips, -1, one.shape[-1]) for one in deep]

    def forward(
        self, frames: Tensor, ids: Tensor, positions: Tensor, mask: Tensor, seen: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return hidden states [clips, length, width] of sequences of token ids, and the vision tokens."""
        tokens, deep = self.see(frames)
        x = self.model.language_model.embed_tokens(ids)
        x = x.index_copy(1, seen, tokens.to(x.dtype))
        return self.model.language_model(x, positions, mask, seen, deep), tokens

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logits of the next token. The output layer shares the input layer's weights."""
        return functional.linear(hidden, self.model.language_model.embed_tokens.weight)


def _initialize(module: nn.Module) -> None:
    if isinstance(module, (nn.Linear, nn.Conv3d)):
        nn.init.normal_(module.weight, std=module.weight[0].numel() ** -0.5)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=0.02 if module.num_embeddings > 600 else 0.2)
