"""Attention in FP8 with FlashAttention 3, for the lossy mode `fp8Attention` (decision 063).

Queries, keys and values are divided by scales, so that FP8 (E4M3) can hold them. The scales follow from the weights
alone: what a normalization or a projection of normalized numbers computes can be no larger than a bound, but for
rounding, for which numbers are clamped to it. They are mostly far below it, which costs no precision, because FP8 is a
floating-point format. To find the largest number of each tensor instead takes time in every pass (decision 063).
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

LARGEST = torch.finfo(torch.float8_e4m3fn).max  # 448


class Fp8Attention:
    """Attention with FlashAttention's interface, computed in FP8 by a kernel of FlashAttention 3.

    Attributes
    ----------
    kernel
        FlashAttention 3's `flash_attn_func`.
    scales
        Those of queries, keys and values, each [1, heads of the keys], in float32. Queries have more heads, each of
        which belongs to one of the keys' (grouped-query attention).
    """

    def __init__(self, kernel: Callable[..., Any], scales: tuple[Tensor, Tensor, Tensor]) -> None:
        self.kernel = kernel
        self.query_scale, self.keys_scale, self.values_scale = scales

    def __call__(self, query: Tensor, keys: Tensor, values: Tensor) -> Any:
        """Return the attention of [1, tokens, heads, width] in the queries' shape."""
        return self.kernel(
            to_fp8(query, self.query_scale),
            to_fp8(keys, self.keys_scale),
            to_fp8(values, self.values_scale),
            q_descale=self.query_scale,
            k_descale=self.keys_scale,
            v_descale=self.values_scale,
        )


def to_fp8(tensor: Tensor, scale: Tensor) -> Tensor:
    """Return a tensor of [1, tokens, heads, width] in FP8, divided by the scales [1, groups] of its heads."""
    grouped = tensor.reshape(*tensor.shape[:2], scale.shape[1], -1, tensor.shape[3]).float()
    divided: Tensor = grouped / scale[:, None, :, None, None]
    return divided.clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn).flatten(2, 3)


def attention_in_fp8(kernel: Callable[..., Any], layer: Any) -> Fp8Attention:
    """Return the attention of a `TwoStreamLayer`'s noise stream, with the scales that its weights allow."""
    with torch.no_grad():
        bounds = (largest_queries(layer), largest_keys(layer), largest_values(layer))
    heads = layer.self_attn.num_key_value_heads
    query, keys, values = (
        (bound.clamp(min=torch.finfo(torch.float32).tiny) / LARGEST).expand(heads).contiguous().unsqueeze(0)
        for bound in bounds
    )
    return Fp8Attention(kernel, (query, keys, values))


def largest_queries(layer: Any) -> Tensor:
    """Return the largest number that the queries of a layer's noise stream can have."""
    return largest_normalized(layer.self_attn.norm_added_q)


def largest_keys(layer: Any) -> Tensor:
    """Return the largest number that the keys of a layer can have, of text and noise: one, or one for each head."""
    attention = layer.self_attn
    noise = largest_normalized(attention.norm_added_k)
    norm = attention.norm_k if attention.k_norm_und_for_gen is None else attention.k_norm_und_for_gen
    if not isinstance(norm, torch.nn.Identity):
        return torch.maximum(noise, largest_normalized(norm))
    text = largest_of_heads(attention.to_k, layer.input_layernorm, attention.num_key_value_heads)
    return torch.maximum(noise, math.sqrt(2) * text)  # the rotary embedding adds two numbers of a head


def largest_values(layer: Any) -> Tensor:
    """Return the largest number that each head of a layer's values can have, of text and noise: [heads]."""
    attention = layer.self_attn
    return torch.maximum(
        largest_of_heads(attention.to_v, layer.input_layernorm, attention.num_key_value_heads),
        largest_of_heads(attention.add_v_proj, layer.input_layernorm_moe_gen, attention.num_key_value_heads),
    )


def largest_normalized(norm: Any) -> Tensor:
    """Return the largest number that a root-mean-square normalization can return, also after rotary embedding.

    A normalized vector of n numbers is no longer than the root of n, and a rotation leaves its length as it is.
    """
    bound: Tensor = norm.weight.float().abs().max() * math.sqrt(norm.weight.numel())
    return bound


def largest_of_heads(linear: Any, norm: Any, heads: int) -> Tensor:
    """Return the largest number that each head of a linear layer's output can have if its input is normalized: [heads].

    By Cauchy and Schwarz, an output is at most the product of two lengths: of its weights, and of its input.
    """
    weight = linear.weight.dequantize().float()  # weights in FP8, of torchao, are no plain tensors
    largest: Tensor = (weight * norm.weight.float()).norm(dim=1) * math.sqrt(weight.shape[1])
    if linear.bias is not None:
        largest = largest + linear.bias.float().abs()
    return largest.view(heads, -1).amax(dim=1)
