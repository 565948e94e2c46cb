"""Settle the prompt and the negative prompt of a generation: text, or NVIDIA's structured JSON."""

import json
from functools import cache
from importlib import resources
from typing import Any

from cosmos_batch.catalogue.generation import MODES, Mode
from cosmos_batch.catalogue.limits import PROMPT_LIMIT
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.parameters import SEQUENCE_LIMIT, GenerationParameters
from cosmos_batch.contract.json_schema import too_deep

Prompt = str | dict[str, Any]
"""A prompt as a caller writes it: text, or NVIDIA's structured JSON."""

DEFAULT_SEQUENCE_LENGTH = 512  # tokens; the default of VAMS's own Cosmos 3 pipeline
UPSAMPLED: tuple[Mode, ...] = ("t2i", "t2v", "i2v")  # in the other modes the rewriting model could not see the input


@cache
def nvidia_negative_prompt() -> str:
    """Return the negative prompt that NVIDIA sends with every video, as JSON in the form that the model was trained on.

    The text is `cosmos_framework/inference/defaults/neg_prompts.json` in NVIDIA/cosmos-framework at 5eee9ed, the same
    as in the cookbooks of NVIDIA/cosmos; its licence is in `negative_prompt.LICENSE.txt`.
    """
    text = resources.files(__package__).joinpath("negative_prompt.json").read_text(encoding="utf-8")
    return json.dumps(json.loads(text))


def settle_prompts(
    parameters: GenerationParameters, prompt: Prompt | None, mode: Mode, upsamples: bool, guided: bool = True
) -> dict[str, Any]:
    """Return the fields of a generation that concern its prompts. Raises Failure (InvalidInput).

    Size and duration are appended to a prompt of text; NVIDIA's structured JSON contains them itself. `upsamples` is
    whether a model that rewrites prompts is configured, and `guided` whether the model follows a negative prompt.
    """
    if parameters.upsample_prompt:
        _refuse_upsampling(mode, upsamples)
    text = prompt_text("prompt", "" if prompt is None else prompt)
    if not text.strip():
        raise Failure("InvalidInput", "prompt: is missing.", "Describe the scene in words, or as NVIDIA's JSON.")
    upsample = parameters.upsample_prompt and not is_structured(text)
    templates = not (MODES[mode].action or upsample or is_structured(text))
    negative = parameters.negative_prompt
    return {
        "prompt": text,
        "upsample_prompt": upsample,
        "negative_prompt": _default_negative_prompt(mode, guided)
        if negative is None
        else prompt_text("negativePrompt", negative),
        "max_sequence_length": parameters.max_sequence_length,
        "use_resolution_template": _or(parameters.use_resolution_template, templates),
        "use_duration_template": _or(parameters.use_duration_template, templates and mode != "t2i"),
    }


def _or(value: bool | None, default: bool) -> bool:
    return default if value is None else value


def _default_negative_prompt(mode: Mode, guided: bool) -> str:
    """Return NVIDIA's negative prompt for the mode. It is always sent, because engines' own defaults differ."""
    return nvidia_negative_prompt() if guided and mode in ("t2v", "i2v", "v2v", "transfer") else ""


def _refuse_upsampling(mode: Mode, is_configured: bool) -> None:
    """Raise Failure if no model can rewrite the prompt."""
    if mode not in UPSAMPLED:
        raise Failure(
            "InvalidInput",
            f"upsamplePrompt: is for {', '.join(UPSAMPLED)}, and the mode is {mode}.",
            "Leave it out, and describe the scene in the prompt.",
        )
    if not is_configured:
        raise Failure(
            "InvalidInput",
            "upsamplePrompt: no model that rewrites prompts is configured.",
            "Set promptUpsampling of app.pipelines.useNvidiaCosmos3 in config.json and deploy, or leave it out.",
        )


def prompt_text(field: str, prompt: object) -> str:
    """Return a prompt as the text that the model reads. Raises Failure if it is no prompt, or too long.

    Structured prompts are escaped to ASCII, as the model was trained on them. White space around a prompt is removed,
    because engines treat it differently.
    """
    if not isinstance(prompt, str | dict) or too_deep(prompt):
        raise Failure("InvalidInput", f"{field}: is no prompt.", "Write text, or JSON like NVIDIA's examples.")
    text = prompt.strip() if isinstance(prompt, str) else json.dumps(prompt)
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise Failure(
            "InvalidInput",
            f"{field}: contains half of a surrogate pair, which is no character.",
            "Replace that character.",
        ) from error
    if size > PROMPT_LIMIT:
        raise Failure(
            "InvalidInput",
            f"{field}: {size:,} bytes are too many.",
            f"Shorten it to {PROMPT_LIMIT:,} bytes of UTF-8; NVIDIA's own have 8,000 to 15,000.",
        )
    return text


def is_structured(text: str) -> bool:
    """Return whether a prompt is NVIDIA's structured JSON, which contains its own size and duration."""
    if not text.lstrip().startswith("{"):
        return False
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def settle_sequence_length(requested: int | None, prompt_tokens: int, negative_tokens: int) -> int:
    """Return `max_sequence_length` for an engine: never less than the prompts need. Raises Failure if one is longer.

    The caller counts the tokens with the model's tokenizer, those of the chat template and special tokens included.
    """
    needed = max(prompt_tokens, negative_tokens)
    limit = requested or SEQUENCE_LIMIT
    if needed > limit:
        field = "prompt" if prompt_tokens >= negative_tokens else "negativePrompt"
        raise Failure(
            "InvalidInput",
            f"{field} has {needed:,} tokens, more than maxSequenceLength ({limit:,}): it would be cut.",
            "Shorten it, or leave maxSequenceLength out." if requested else "Shorten it.",
        )
    return requested or max(DEFAULT_SEQUENCE_LENGTH, needed)
