"""The demo model's tokenizer and configuration files, and prompts as the product's engines write them."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from cosmos_batch.catalogue.pipelines import DEFAULT_SYSTEM_PROMPT
from cosmos_batch.contract.tasks import TASKS
from cosmos_batch.demo.checkpoint import generation_config
from cosmos_batch.demo.random_scenes import draw_scene
from cosmos_batch.demo.tokenizer import CONTEXT, train_tokenizer, write_json, write_tokenizer
from training.questions import ask, ask_of_the_unknown

VOCABULARY = 1200  # tokens before the special ones
_SENTENCES = 6_000
_SEED = 0

# Pixels that the processor lets through; the engines fit frames to these before the model sees them.
IMAGE_PIXELS = 384 * 384
VIDEO_PIXELS = 24 * 256 * 192  # of all frames together
MAX_FRAMES = 24
MAX_NEW_TOKENS = 256


def sentences() -> Iterator[str]:
    """Yield text of the kind that the model reads and writes, from which the tokenizer learns its vocabulary."""
    random = np.random.default_rng(_SEED)
    for number in range(_SENTENCES):
        duration = 0.0 if number % 5 == 0 else float(random.uniform(2, 6))
        question = ask(random, draw_scene(random, 1.3, 1.0, duration))
        yield question.text
        yield question.completion
        yield f"<{random.uniform(0, 20):.1f} seconds>"
        if number % 10 == 0:
            yield ask_of_the_unknown(random, duration).completion
            yield DEFAULT_SYSTEM_PROMPT + "\nsystem\nuser\nassistant\n"
    for task in TASKS.values():
        for _ in range(20):
            yield task.question(task.example, task.medium or "video")


def make_tokenizer() -> Tokenizer:
    """Learn the vocabulary, which is the same on every machine. A stage from nothing does, and takes half a minute."""
    return train_tokenizer(sentences(), VOCABULARY)


def load_tokenizer(checkpoint: Path) -> Tokenizer:
    """Load the vocabulary of a checkpoint, which its weights are bound to."""
    return Tokenizer.from_file(str(checkpoint / "tokenizer.json"))


def model_config(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the checkpoint's `config.json`: Qwen3-VL with 11 million parameters."""
    return {
        "architectures": ["Qwen3VLForConditionalGeneration"],
        "model_type": "qwen3_vl",
        "tie_word_embeddings": True,
        "dtype": "bfloat16",
        "image_token_id": tokenizer.token_to_id("<|image_pad|>"),
        "video_token_id": tokenizer.token_to_id("<|video_pad|>"),
        "vision_start_token_id": tokenizer.token_to_id("<|vision_start|>"),
        "vision_end_token_id": tokenizer.token_to_id("<|vision_end|>"),
        "text_config": {
            "model_type": "qwen3_vl_text",
            "vocab_size": math.ceil(tokenizer.get_vocab_size() / 64) * 64,
            "hidden_size": 256,
            "intermediate_size": 768,
            "num_hidden_layers": 7,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 32,
            "hidden_act": "silu",
            "max_position_embeddings": CONTEXT,
            "rms_norm_eps": 1e-6,
            "attention_bias": False,
            "attention_dropout": 0.0,
            "initializer_range": 0.02,
            "use_cache": True,
            "tie_word_embeddings": True,
            "dtype": "bfloat16",
            "bos_token_id": tokenizer.token_to_id("<|endoftext|>"),
            "eos_token_id": tokenizer.token_to_id("<|im_end|>"),
            "rope_theta": 10_000,
            "rope_scaling": {"rope_type": "default", "mrope_interleaved": True, "mrope_section": [6, 5, 5]},
        },
        "vision_config": {
            "model_type": "qwen3_vl",
            "depth": 6,
            "hidden_size": 192,
            "intermediate_size": 768,
            "num_heads": 6,
            "hidden_act": "gelu_pytorch_tanh",
            "in_channels": 3,
            "patch_size": 16,
            "temporal_patch_size": 2,
            "spatial_merge_size": 2,
            "out_hidden_size": 256,
            "num_position_embeddings": 576,
            "deepstack_visual_indexes": [1, 3],
            "initializer_range": 0.02,
        },
    }


def write_checkpoint_files(folder: Path, tokenizer: Tokenizer) -> None:
    """Write all files of a checkpoint but its weights."""
    write_tokenizer(
        folder, tokenizer, image_pixels=IMAGE_PIXELS, video_pixels=VIDEO_PIXELS, fps=4, max_frames=MAX_FRAMES
    )
    write_json(folder / "config.json", model_config(tokenizer))
    write_json(folder / "generation_config.json", generation_config(tokenizer, MAX_NEW_TOKENS))


def prefix(timestamps: list[float] | None, tokens: int) -> str:
    """Return the prompt up to the question: the system prompt, then the media.

    `timestamps` are those of each pair of frames, in seconds; None for an image. `tokens` stand for each of them.
    """
    start = f"<|im_start|>system\n{DEFAULT_SYSTEM_PROMPT}<|im_end|>\n<|im_start|>user\n"
    if timestamps is None:
        return f"{start}<|vision_start|>{'<|image_pad|>' * tokens}<|vision_end|>"
    pads = f"<|vision_start|>{'<|video_pad|>' * tokens}<|vision_end|>"
    return start + "".join(f"<{seconds:.1f} seconds>{pads}" for seconds in timestamps)


def suffix(question: str) -> str:
    """Return the rest of the prompt: the question, and the beginning of the answer."""
    return f"{question}<|im_end|>\n<|im_start|>assistant\n"


END = "<|im_end|>"
