"""Random weights of the Qwen3-VL architecture, made and written without importing torch, which takes seconds."""

import json
import math
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

_SEED = 0
_TEXT = "model.language_model"
_VISION = "model.visual"

TensorShape = tuple[int, ...]

BFLOAT16_BYTES = 2


def random_weights(shapes: Mapping[str, TensorShape]) -> dict[str, np.ndarray]:
    """Return a random float32 tensor of every shape, the same on every machine."""
    generator = np.random.default_rng(_SEED)
    return {name: _random(name, shapes[name], generator) for name in sorted(shapes)}


def reasoner_shapes(config: dict[str, Any]) -> dict[str, TensorShape]:
    """Return the shape of every tensor that `config` describes, by its name in a checkpoint of Qwen3-VL."""
    return dict([*_text_shapes(config["text_config"]), *_vision_shapes(config["vision_config"])])


def save_bfloat16(weights: dict[str, np.ndarray], path: Path) -> None:
    """Write a safetensors file. A bfloat16 is the upper half of a float32."""
    data = bytearray()
    for array in weights.values():
        data += (array.view(np.uint32) >> 16).astype("<u2").tobytes()
    path.write_bytes(bfloat16_header({name: array.shape for name, array in weights.items()}) + data)


def bfloat16_header(shapes: Mapping[str, TensorShape]) -> bytes:
    """Return what stands before the tensors in a safetensors file that has them one after the other: the length of a
    JSON header, and the header."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        start, end = end, end + BFLOAT16_BYTES * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the tensors are aligned to 8 bytes
    return struct.pack("<Q", len(text)) + text


def _random(name: str, shape: TensorShape, generator: np.random.Generator) -> np.ndarray:
    """Return a random tensor, scaled by its fan-in so that activations stay near one through all layers."""
    if len(shape) == 1:
        return np.full(shape, 1 if "norm" in name and name.endswith("weight") else 0, np.float32)
    values = generator.standard_normal(shape, np.float32)
    if name.endswith("embed_tokens.weight"):
        return values
    gain = 3.0 if name.startswith("lm_head") else 1.0  # a wider spread of logits: clear preferences
    return values * np.float32(gain / math.sqrt(math.prod(shape[1:])))


def _text_shapes(config: dict[str, Any]) -> Iterator[tuple[str, TensorShape]]:
    width, vocabulary = config["hidden_size"], config["vocab_size"]
    yield "lm_head.weight", (vocabulary, width)
    yield f"{_TEXT}.embed_tokens.weight", (vocabulary, width)
    yield f"{_TEXT}.norm.weight", (width,)
    for layer in range(config["num_hidden_layers"]):
        for name, shape in _text_layer(config).items():
            yield f"{_TEXT}.layers.{layer}.{name}.weight", shape


def _text_layer(config: dict[str, Any]) -> dict[str, TensorShape]:
    width, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    return {
        "input_layernorm": (width,),
        "self_attn.q_proj": (queries, width),
        "self_attn.k_proj": (keys, width),
        "self_attn.v_proj": (keys, width),
        "self_attn.o_proj": (width, queries),
        "self_attn.q_norm": (head,),
        "self_attn.k_norm": (head,),
        "post_attention_layernorm": (width,),
        "mlp.gate_proj": (inner, width),
        "mlp.up_proj": (inner, width),
        "mlp.down_proj": (width, inner),
    }


def _vision_shapes(config: dict[str, Any]) -> Iterator[tuple[str, TensorShape]]:
    width, patch = config["hidden_size"], config["patch_size"]
    merged = width * config["spatial_merge_size"] ** 2
    yield f"{_VISION}.pos_embed.weight", (config["num_position_embeddings"], width)
    yield from _biased("patch_embed.proj", (width, config["in_channels"], config["temporal_patch_size"], patch, patch))
    for block in range(config["depth"]):
        for name, shape in _vision_block(config).items():
            yield from _biased(f"blocks.{block}.{name}", shape)
    yield from _merger("merger", width, merged, config["out_hidden_size"])
    for index in range(len(config["deepstack_visual_indexes"])):
        yield from _merger(f"deepstack_merger_list.{index}", merged, merged, config["out_hidden_size"])


def _vision_block(config: dict[str, Any]) -> dict[str, TensorShape]:
    width, inner = config["hidden_size"], config["intermediate_size"]
    return {
        "norm1": (width,),
        "attn.qkv": (3 * width, width),
        "attn.proj": (width, width),
        "norm2": (width,),
        "mlp.linear_fc1": (inner, width),
        "mlp.linear_fc2": (width, inner),
    }


def _merger(name: str, norm: int, merged: int, out: int) -> Iterator[tuple[str, TensorShape]]:
    yield from _biased(f"{name}.norm", (norm,))
    yield from _biased(f"{name}.linear_fc1", (merged, merged))
    yield from _biased(f"{name}.linear_fc2", (out, merged))


def _biased(name: str, weight: TensorShape) -> Iterator[tuple[str, TensorShape]]:
    yield f"{_VISION}.{name}.weight", weight
    yield f"{_VISION}.{name}.bias", weight[:1]
