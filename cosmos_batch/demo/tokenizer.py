"""The tokenizer and processor files of tiny checkpoints: those of Qwen3-VL, with a few hundred tokens."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

CONTEXT = 4096  # tokens
_VOCABULARY = 512  # before the added tokens

# The order is Qwen's, because the model's configuration refers to six of them by their ids.
_SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
_ADDED = ("<tool_call>", "</tool_call>", "<think>", "</think>")  # not special: they stay in decoded text

# The text on which the tokenizer is trained. Its words become tokens, and the random model answers with them.
_CORPUS = (
    "The robot arm reaches down, grips the red cube, lifts it and places it on the green mark on the table. ",
    "A person walks across the road while a car waits at the crossing; the light turns from red to green. ",
    "The forklift carries a pallet through the warehouse and stops in front of the shelf on the left. ",
    "The video shows a kitchen in the morning: a hand opens the drawer, takes a cup and pours some water. ",
    "In the image there are two boxes, one blue and one yellow, beside a small conveyor belt. ",
    "The motion is smooth and physically plausible, because the object falls at the expected speed. ",
)

# Qwen's split of a text into words, numbers, punctuation and space.
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)

_CHAT_TEMPLATE = """\
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.content is string %}
        {{- message.content }}
    {%- else %}
        {%- for content in message.content %}
            {%- if content.type == 'image' or 'image' in content or 'image_url' in content %}
                {{- '<|vision_start|><|image_pad|><|vision_end|>' }}
            {%- elif content.type == 'video' or 'video' in content or 'video_url' in content %}
                {{- '<|vision_start|><|video_pad|><|vision_end|>' }}
            {%- elif 'text' in content %}
                {{- content.text }}
            {%- endif %}
        {%- endfor %}
    {%- endif %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

_PROCESSOR = {
    "patch_size": 16,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "processor_class": "Qwen3VLProcessor",
}


def train_tokenizer(sentences: Iterable[str] = _CORPUS, vocabulary: int = _VOCABULARY) -> Tokenizer:
    """Train a byte-level BPE tokenizer: it takes every text, and most words of `sentences` become one token.

    `vocabulary` is the number of tokens before the special ones are added.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False
    )
    tokenizer.train_from_iterator(sentences, trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in _SPECIAL])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in _ADDED])
    return tokenizer


def spoken_tokens(tokenizer: Tokenizer) -> list[int]:
    """Return the ids of tokens that a random model answers with: whole words of the corpus, and punctuation."""
    words = {
        word
        for sentence in _CORPUS
        for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(sentence)
        if word.startswith("Ġ") or word in ".,:;"
    }
    return sorted(token for word in words if (token := tokenizer.token_to_id(word)) is not None)


def write_tokenizer(
    folder: Path,
    tokenizer: Tokenizer,
    *,
    image_pixels: int = 256 * 256,
    video_pixels: int = 128 * 128 * 16,
    fps: int = 2,
    max_frames: int = 16,
) -> None:
    """Write the tokenizer, chat template and processor files of a Qwen3-VL checkpoint.

    `image_pixels` limits the pixels of one image, `video_pixels` those of all frames of a clip together. The
    defaults let a CPU answer in a second; real checkpoints allow 16.7 and 25 million.
    """
    tokenizer.save(str(folder / "tokenizer.json"))
    saved = json.loads((folder / "tokenizer.json").read_text())
    write_json(folder / "vocab.json", saved["model"]["vocab"])
    merges = "".join(f"{left} {right}\n" for left, right in saved["model"]["merges"])
    (folder / "merges.txt").write_text(merges, encoding="utf-8")
    write_json(folder / "tokenizer_config.json", _tokenizer_config(saved["added_tokens"]))
    write_json(folder / "chat_template.json", {"chat_template": _CHAT_TEMPLATE})
    _write_processors(folder, image_pixels, video_pixels, fps, max_frames)


def _tokenizer_config(added_tokens: list[dict[str, Any]]) -> dict[str, Any]:
    fields = ("content", "lstrip", "normalized", "rstrip", "single_word", "special")
    return {
        "tokenizer_class": "Qwen2Tokenizer",
        "add_prefix_space": False,
        "bos_token": None,
        "unk_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "model_max_length": CONTEXT,
        "clean_up_tokenization_spaces": False,
        "errors": "replace",
        "split_special_tokens": False,
        "added_tokens_decoder": {str(token["id"]): {key: token[key] for key in fields} for token in added_tokens},
        "chat_template": _CHAT_TEMPLATE,
    }


def _write_processors(folder: Path, image_pixels: int, video_pixels: int, fps: int, max_frames: int) -> None:
    write_json(
        folder / "preprocessor_config.json",
        {
            **_PROCESSOR,
            "image_processor_type": "Qwen2VLImageProcessorFast",
            "size": {"shortest_edge": 32 * 32, "longest_edge": image_pixels},
        },
    )
    write_json(
        folder / "video_preprocessor_config.json",
        {
            **_PROCESSOR,
            "video_processor_type": "Qwen3VLVideoProcessor",
            "size": {"shortest_edge": 32 * 32 * 2, "longest_edge": video_pixels},
            "fps": fps,
            "min_frames": 4,
            "max_frames": max_frames,
            "do_sample_frames": True,
        },
    )


def write_json(path: Path, value: object) -> None:
    """Write indented JSON with a last newline."""
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
