"""Checkpoints with the shapes of Cosmos-Reason2 and random weights, which take as long to run as the real ones.

The shapes are those of Qwen3-VL-2B, -8B and -32B, which Cosmos-Reason2 has; tokenizer and processors are those of the
tiny checkpoint, with as many tokens as the model's output layer has, and the real limits of pixels and frames.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from cosmos_batch.demo.checkpoint import build_random_checkpoint
from cosmos_batch.demo.tokenizer import train_tokenizer, write_json, write_tokenizer
from cosmos_batch.demo.weights import BFLOAT16_BYTES, TensorShape, bfloat16_header, reasoner_shapes

VOCABULARY = 151_936
_TEXT = {
    "2b": {"hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 28, "num_attention_heads": 16},
    "8b": {"hidden_size": 4096, "intermediate_size": 12_288, "num_hidden_layers": 36, "num_attention_heads": 32},
    "32b": {"hidden_size": 5120, "intermediate_size": 25_600, "num_hidden_layers": 64, "num_attention_heads": 64},
}
_VISION = {
    "2b": {"depth": 24, "hidden_size": 1024, "intermediate_size": 4096, "deepstack_visual_indexes": [5, 11, 17]},
    "8b": {"depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "deepstack_visual_indexes": [8, 16, 24]},
    "32b": {"depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "deepstack_visual_indexes": [8, 16, 24]},
}
_SHARES_EMBEDDINGS = ("2b",)  # the shapes whose embedding is their output layer too
_SPARSE = ("32b",)  # the shapes whose weights are zeros in a sparse file
_IMAGE_PIXELS, _VIDEO_PIXELS = (256**2, 4096**2), (64**2, 24 * 1024**2)  # least and most


def build(shape: str, parent: Path) -> Path:
    """Return the folder of the checkpoint; it is written below `parent` unless it exists, on a GPU in seconds.

    The weights of 32b, 67 GB, are zeros that take no space; vLLM draws its own with `--load-format dummy`.
    """
    folder = parent / f"random-weights-{shape.upper()}-Cosmos-Reason2"
    if (folder / "model.safetensors").exists():
        return folder
    tiny = build_random_checkpoint(parent)
    folder.mkdir(exist_ok=True)
    for path in tiny.iterdir():
        if path.name != "model.safetensors":
            (folder / path.name).write_bytes(path.read_bytes())
    tokenizer = full_tokenizer()
    write_tokenizer(folder, tokenizer)
    config = true_config(shape, json.loads((tiny / "config.json").read_text(encoding="utf-8")), tokenizer)
    write_json(folder / "config.json", config)
    text = config["text_config"]
    write_json(folder / "generation_config.json", {name: text[name] for name in ("bos_token_id", "eos_token_id")})
    allow_real_sizes(folder)
    write = _write_zeros if shape in _SPARSE else _write_weights
    write(true_tensors(config), folder / "model.safetensors")
    return folder


def true_config(shape: str, tiny: dict[str, Any], tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the tiny checkpoint's configuration with the real model's numbers."""
    tokens = {f"{name}_token_id": tokenizer.token_to_id(f"<|{name}|>") for name in ("vision_start", "vision_end")}
    tokens |= {f"{name}_token_id": tokenizer.token_to_id(f"<|{name}_pad|>") for name in ("image", "video")}
    own = {"tie_word_embeddings": shape in _SHARES_EMBEDDINGS}
    text = {
        **tiny["text_config"],
        **own,
        **_TEXT[shape],
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 262_144,
        "bos_token_id": tokenizer.token_to_id("<|endoftext|>"),
        "eos_token_id": tokenizer.token_to_id("<|im_end|>"),
    }
    text["rope_scaling"] = {**text["rope_scaling"], "mrope_section": [24, 20, 20]}
    vision = {
        **tiny["vision_config"],
        **_VISION[shape],
        "num_heads": 16,
        "num_position_embeddings": 2304,
        "out_hidden_size": text["hidden_size"],
    }
    return {**tiny, **own, **tokens, "text_config": text, "vision_config": vision}


def true_tensors(config: dict[str, Any]) -> dict[str, TensorShape]:
    """Return the shape of every tensor of the checkpoint by its name."""
    shapes = reasoner_shapes(config)
    if config["tie_word_embeddings"]:
        del shapes["lm_head.weight"]
    return shapes


def full_tokenizer() -> Tokenizer:
    """Return a tokenizer with a word for every id of the output layer, so that answers decode like real text."""
    saved = json.loads(train_tokenizer().to_str())
    vocabulary, added = saved["model"]["vocab"], saved["added_tokens"]
    first, moved = len(vocabulary), VOCABULARY - len(added)  # what is added stays behind the rest
    vocabulary |= {f"Ġw{number}": number for number in range(first, moved)}
    for place, token in enumerate(added):
        token["id"] = moved + place
    return Tokenizer.from_str(json.dumps(saved))


def allow_real_sizes(folder: Path) -> None:
    """Give a checkpoint's processors the real model's limits of pixels and frames."""
    for name, (least, most) in (("preprocessor", _IMAGE_PIXELS), ("video_preprocessor", _VIDEO_PIXELS)):
        path = folder / f"{name}_config.json"
        settings = json.loads(path.read_text(encoding="utf-8"))
        settings["size"] = {"shortest_edge": least, "longest_edge": most}
        if "max_frames" in settings:
            settings["max_frames"] = 768
        write_json(path, settings)


def _write_weights(shapes: Mapping[str, TensorShape], path: Path) -> None:
    import torch
    from safetensors.torch import save_file

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    save_file({name: _random(name, shape, device) for name, shape in shapes.items()}, path, {"format": "pt"})


def _write_zeros(shapes: Mapping[str, TensorShape], path: Path) -> None:
    """Write zeros as a sparse file in the format of safetensors."""
    with path.open("wb") as file:
        file.write(bfloat16_header(shapes))
        file.truncate(file.tell() + BFLOAT16_BYTES * sum(map(math.prod, shapes.values())))


def _random(name: str, shape: TensorShape, device: str) -> Any:
    """Return random weights scaled by fan-in, so that activations stay near one through all layers."""
    import torch

    if len(shape) == 1:
        value = 1 if "norm" in name and name.endswith("weight") else 0
        return torch.full(shape, value, dtype=torch.bfloat16)
    scale = 0.02 if "embed_tokens" in name else 1 / math.sqrt(math.prod(shape[1:]))
    return (torch.randn(shape, device=device, dtype=torch.bfloat16) * scale).cpu()
