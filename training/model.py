"""Qwen3-VL as one small PyTorch module, for training many clips of one size at once.

Its parameters have the names and shapes of a Qwen3-VL checkpoint, and its logits are those of transformers'
`Qwen3VLForConditionalGeneration` (a test compares them). It differs in what it takes: a batch holds clips of one grid,
so that the vision encoder attends over whole tensors and not over each pair of frames in turn, and one sequence holds
several questions about its clip, each of which sees the clip and itself alone.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from training.vision_encoder import Vision, patchify, rotate


class RMSNorm(nn.Module):
    """Root mean square normalisation over the last dimension."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalize in float32."""
        return functional.rms_norm(x.float(), self.weight.shape, self.weight.float(), self.eps).to(x.dtype)


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
