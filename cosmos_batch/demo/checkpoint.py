"""Tiny random checkpoints in the exact on-disk layouts of Cosmos-Reason2 (Qwen3-VL) and of Cosmos 3.

They go through every step that the real ones do, quickly and without a licence. Their weights are random numbers, the
same on every machine, so their answers say nothing true.
"""

import math
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from cosmos_batch.catalogue.pipelines import RANDOM_WEIGHTS
from cosmos_batch.demo.cosmos3 import write_cosmos3_weights
from cosmos_batch.demo.tokenizer import CONTEXT, spoken_tokens, train_tokenizer, write_json, write_tokenizer
from cosmos_batch.demo.weights import random_weights, reasoner_shapes, save_bfloat16

NAME = f"{RANDOM_WEIGHTS}-tiny-Cosmos-Reason2"
"""The folder's name, which documents show as the model."""
COSMOS3_NAME = f"{RANDOM_WEIGHTS}-tiny-Cosmos3"

MAX_NEW_TOKENS = 64
_WIDTH = 64
_LAYERS = 4
# 32 is the least that the attention of vLLM's CPU build takes.
_HEAD_WIDTH = 32
# One dimension of the hidden state is this constant in every embedding, and no layer writes to it.
_CONSTANT_DIMENSION = 0
_CONSTANT = 4.0
# The output layer multiplies the constant by this in the logit of a token that is not to be answered.
_SILENCE = -20.0


def build_random_checkpoint(parent: Path) -> Path:
    """Build a checkpoint of Cosmos-Reason2 as the folder `NAME` below `parent` and return that folder.

    A folder that exists is returned as it is: it got its name when it was complete. Two processes may build it at once.
    It takes a fraction of a second.
    """
    return publish(parent / NAME, _write_reason2)


def build_random_cosmos3(parent: Path) -> Path:
    """Build a checkpoint of Cosmos 3 as the folder `COSMOS3_NAME`; all else as in `build_random_checkpoint`.

    It has all parts of a reasoner. Those of the generator are there only because real checkpoints have them.
    """
    return publish(parent / COSMOS3_NAME, _write_cosmos3)


def publish(folder: Path, write: Callable[[Path], None]) -> Path:
    """Have `write` fill a folder, and rename it to its name when it is complete. Return one that exists as it is."""
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as building:
        built = Path(building) / folder.name
        built.mkdir()
        write(built)
        _rename(built, folder)
    return folder


def _rename(built: Path, folder: Path) -> None:
    try:
        built.rename(folder)
    except OSError:
        if not folder.is_dir():  # no other process has built it meanwhile, so this is a real error
            raise
        shutil.rmtree(built)


def _write_reason2(folder: Path) -> None:
    weights = _write_all_but_weights(folder, "Qwen3VLForConditionalGeneration", "qwen3_vl")[1]
    save_bfloat16(weights, folder / "model.safetensors")


def _write_cosmos3(folder: Path) -> None:
    config, weights = _write_all_but_weights(folder, "Cosmos3ForConditionalGeneration", "cosmos3_omni")
    write_cosmos3_weights(folder, config, weights)


def _write_all_but_weights(
    folder: Path, architecture: str, model_type: str
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Write the files that both layouts share. Return the configuration, and the weights, which are not written yet."""
    tokenizer = train_tokenizer()
    config = {"architectures": [architecture], "model_type": model_type, **_model_config(tokenizer)}
    write_tokenizer(folder, tokenizer)
    write_json(folder / "config.json", config)
    write_json(folder / "generation_config.json", generation_config(tokenizer))
    weights = random_weights(reasoner_shapes(config))
    _speak_words_only(weights, spoken_tokens(tokenizer))
    return config, weights


def _model_config(tokenizer: Tokenizer) -> dict[str, Any]:
    return {
        "tie_word_embeddings": False,
        "dtype": "bfloat16",
        "image_token_id": tokenizer.token_to_id("<|image_pad|>"),
        "video_token_id": tokenizer.token_to_id("<|video_pad|>"),
        "vision_start_token_id": tokenizer.token_to_id("<|vision_start|>"),
        "vision_end_token_id": tokenizer.token_to_id("<|vision_end|>"),
        "text_config": _text_config(tokenizer),
        "vision_config": _vision_config(),
    }


def _text_config(tokenizer: Tokenizer) -> dict[str, Any]:
    return {
        "model_type": "qwen3_vl_text",
        "vocab_size": math.ceil(tokenizer.get_vocab_size() / 64) * 64,
        "hidden_size": _WIDTH,
        "intermediate_size": 2 * _WIDTH,
        "num_hidden_layers": _LAYERS,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": _HEAD_WIDTH,
        "hidden_act": "silu",
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-6,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "initializer_range": 0.02,
        "use_cache": True,
        "dtype": "bfloat16",
        "bos_token_id": tokenizer.token_to_id("<|endoftext|>"),
        "eos_token_id": tokenizer.token_to_id("<|im_end|>"),
        "rope_theta": 5_000_000,
        "rope_scaling": {"rope_type": "default", "mrope_interleaved": True, "mrope_section": [6, 5, 5]},
    }


def _vision_config() -> dict[str, Any]:
    return {
        "model_type": "qwen3_vl",
        "depth": 3,
        "hidden_size": _WIDTH,
        "intermediate_size": 2 * _WIDTH,
        "num_heads": 2,
        "hidden_act": "gelu_pytorch_tanh",
        "in_channels": 3,
        "patch_size": 16,
        "temporal_patch_size": 2,
        "spatial_merge_size": 2,
        "out_hidden_size": _WIDTH,
        "num_position_embeddings": 256,
        "deepstack_visual_indexes": [0, 1],
        "initializer_range": 0.02,
    }


def generation_config(tokenizer: Tokenizer, max_new_tokens: int = MAX_NEW_TOKENS) -> dict[str, Any]:
    """Return the content of a checkpoint's `generation_config.json`, with the longest answer in tokens."""
    end = tokenizer.token_to_id("<|endoftext|>")
    return {
        "bos_token_id": end,
        "pad_token_id": end,
        "eos_token_id": [tokenizer.token_to_id("<|im_end|>"), end],
        "do_sample": True,
        "temperature": 0.7,
        "top_k": 20,
        "top_p": 0.8,
        "max_new_tokens": max_new_tokens,
    }


def _speak_words_only(weights: dict[str, np.ndarray], spoken: list[int]) -> None:
    """Let the model answer with `spoken` tokens only. The constant dimension serves as a bias: the layout has none."""
    weights["model.language_model.embed_tokens.weight"][:, _CONSTANT_DIMENSION] = _CONSTANT
    for name, tensor in weights.items():
        if name.endswith(("self_attn.o_proj.weight", "mlp.down_proj.weight")):
            tensor[_CONSTANT_DIMENSION] = 0
    output = weights["lm_head.weight"][:, _CONSTANT_DIMENSION]
    output[:] = _SILENCE
    output[spoken] = 0
