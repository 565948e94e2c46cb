"""The weights of a Cosmos 3 checkpoint: a reasoner and a generator side by side, in folders as Diffusers has them.

The reasoner is a Qwen3-VL under other names. The generator shares its layers, as a second expert in each, and its
tensors lie in the same files.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np

from cosmos_batch.demo.tokenizer import write_json
from cosmos_batch.demo.weights import TensorShape, random_weights, save_bfloat16

_TEXT = "model.language_model."
_VISION = "model.visual."
_INDEX = "diffusion_pytorch_model.safetensors.index.json"
_SHARDS = 2
_RENAMED = {
    "q_proj": "to_q",
    "k_proj": "to_k",
    "v_proj": "to_v",
    "o_proj": "to_out",
    "q_norm": "norm_q",
    "k_norm": "norm_k",
}
# The parts of a Diffusers pipeline. A reasoner opens the transformer and the vision encoder only.
_PARTS = {
    "scheduler": ["diffusers", "UniPCMultistepScheduler"],
    "text_tokenizer": ["transformers", "Qwen2Tokenizer"],
    "transformer": ["diffusers", "Cosmos3OmniTransformer"],
    "vae": ["diffusers", "AutoencoderKLWan"],
    "vision_encoder": ["transformers", "Qwen3VLVisionModel"],
}


def write_cosmos3_weights(folder: Path, config: dict[str, Any], reasoner: dict[str, np.ndarray]) -> None:
    """Write the tensors of `reasoner`, named as Qwen3-VL names them, and those of a random generator."""
    vision = {name.removeprefix(_VISION): tensor for name, tensor in reasoner.items() if name.startswith(_VISION)}
    text = {_text_name(name): tensor for name, tensor in reasoner.items() if not name.startswith(_VISION)}
    generator = random_weights(_generator_shapes(config["text_config"]))
    index = {
        **_write_transformer(folder / "transformer", {**text, **generator}),
        **_write_part(folder / "vision_encoder", config["vision_config"], vision, "model.safetensors"),
    }
    _write_part(folder / "vae", {}, random_weights({"decoder.conv.weight": (4, 4)}), "model.safetensors")
    write_json(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": index})
    write_json(folder / "model_index.json", {"_class_name": "Cosmos3OmniPipeline", **_PARTS})


def _text_name(name: str) -> str:
    """Return the name of a tensor in this layout: `model.language_model.layers.0.self_attn.q_proj.weight` is
    `layers.0.self_attn.to_q.weight`."""
    short = name.removeprefix(_TEXT)
    return re.sub(r"(?<=\.self_attn\.)\w+", lambda match: _RENAMED[match[0]], short)


def _write_transformer(folder: Path, tensors: dict[str, np.ndarray]) -> dict[str, str]:
    """Write the tensors in two files, because real checkpoints have several. Return the file of each tensor."""
    names = sorted(tensors)
    index: dict[str, str] = {}
    for shard in range(_SHARDS):
        file = f"diffusion_pytorch_model-{shard + 1:05d}-of-{_SHARDS:05d}.safetensors"
        part = {name: tensors[name] for name in names[shard::_SHARDS]}
        index.update(_write_part(folder, {"_class_name": "Cosmos3OmniTransformer"}, part, file))
    here = {name: path.removeprefix(f"{folder.name}/") for name, path in index.items()}
    write_json(folder / _INDEX, {"metadata": {}, "weight_map": here})
    return index


def _write_part(folder: Path, config: dict[str, Any], tensors: dict[str, np.ndarray], file: str) -> dict[str, str]:
    folder.mkdir(exist_ok=True)
    write_json(folder / "config.json", config)
    save_bfloat16(tensors, folder / file)
    return dict.fromkeys(tensors, f"{folder.name}/{file}")


def _generator_shapes(text: dict[str, Any]) -> dict[str, TensorShape]:
    width = text["hidden_size"]
    shapes: dict[str, TensorShape] = {
        "norm_moe_gen.weight": (width,),
        "audio_modality_embed": (width,),
        "action_modality_embed": (width,),
    }
    for name in ("proj_in", "proj_out", "time_embedder.linear_1", "time_embedder.linear_2"):
        shapes |= {f"{name}.weight": (width, width), f"{name}.bias": (width,)}
    for name in ("audio_proj_in", "audio_proj_out"):
        shapes |= {f"{name}.weight": (width, width), f"{name}.bias": (width,)}
    for name in ("action_proj_in", "action_proj_out"):
        shapes |= {f"{name}.fc.weight": (2, width), f"{name}.bias.weight": (2, width)}
    for layer in range(text["num_hidden_layers"]):
        shapes |= {f"layers.{layer}.{name}.weight": shape for name, shape in _generator_layer(text).items()}
    return shapes


def _generator_layer(text: dict[str, Any]) -> dict[str, TensorShape]:
    width, inner, head = text["hidden_size"], text["intermediate_size"], text["head_dim"]
    queries, keys = text["num_attention_heads"] * head, text["num_key_value_heads"] * head
    return {
        "self_attn.add_q_proj": (queries, width),
        "self_attn.add_k_proj": (keys, width),
        "self_attn.add_v_proj": (keys, width),
        "self_attn.to_add_out": (width, queries),
        "self_attn.norm_added_q": (head,),
        "self_attn.norm_added_k": (head,),
        "mlp_moe_gen.gate_proj": (inner, width),
        "mlp_moe_gen.up_proj": (inner, width),
        "mlp_moe_gen.down_proj": (width, inner),
        "input_layernorm_moe_gen": (width,),
        "post_attention_layernorm_moe_gen": (width,),
    }
