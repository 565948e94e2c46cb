"""Attention in FP8 with FlashAttention 3, for the lossy mode `fp8Attention` (decision 063)."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def fp8_attention(kernel: Callable[..., Any], query: Tensor, keys: Tensor, values: Tensor) -> Any:
    """Return the attention that a kernel of FlashAttention 3 computes from inputs in FP8.

    Queries are [batch, tokens, heads, width]. Keys and values have fewer heads, each of which serves a group of the
    queries' heads (grouped-query attention). Each head of the keys has its own scale.
    """
    scaled = (quantized_heads(one, keys.shape[2]) for one in (query, keys, values))
    (query8, query_scale), (keys8, keys_scale), (values8, values_scale) = scaled
    return kernel(query8, keys8, values8, q_descale=query_scale, k_descale=keys_scale, v_descale=values_scale)


def quantized_heads(tensor: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """Return a tensor of [batch, tokens, heads, width] in FP8 (E4M3), and its scales of [batch, groups].

    The tensor's values are those in FP8, multiplied by the scale of their group of heads.
    """
    grouped = tensor.reshape(*tensor.shape[:2], groups, -1, tensor.shape[3])
    scale = largest_of_groups(grouped).clamp(min=torch.finfo(torch.float32).tiny) / torch.finfo(torch.float8_e4m3fn).max
    quantized = (grouped / scale[:, None, :, None, None]).to(torch.float8_e4m3fn)
    return quantized.flatten(2, 3), scale


@torch.library.custom_op("cosmos_batch::largest_of_groups", mutates_args=())
def largest_of_groups(grouped: Tensor) -> Tensor:
    """Return the largest absolute value of each group in [batch, tokens, groups, heads, width]: [batch, groups].

    It is an operation of its own so that torch does not compile it. Layers are compiled while they warm up with a few
    tokens, and a kernel that suits a reduction over so few is probably slow for many (decision 063).
    """
    largest: Tensor = torch.linalg.vector_norm(grouped, ord=math.inf, dim=(1, 3, 4)).float()
    return largest


@largest_of_groups.register_fake
def _like_largest_of_groups(grouped: Tensor) -> Tensor:
    return grouped.new_empty((grouped.shape[0], grouped.shape[2]), dtype=torch.float32)
