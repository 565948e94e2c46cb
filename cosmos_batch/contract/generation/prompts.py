"""Prompts of a generator: text, or NVIDIA's structured JSON."""

import json
from functools import cache
from importlib import resources

from cosmos_batch.catalogue.limits import PROMPT_LIMIT
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.modes import Mode
from cosmos_batch.contract.json_schema import too_deep

# Tokens. vLLM-Omni's own default is 4,096, NVIDIA's prompts have 1,500 to 2,500, and text of PROMPT_LIMIT bytes has
# about 8,000.
SEQUENCE_LIMIT = 16_384
SEQUENCE_LEAST = 512  # the seed's default
UPSAMPLED: tuple[Mode, ...] = ("t2i", "t2v", "i2v")  # of the others, nobody would show a model the input


@cache
def nvidia_negative_prompt() -> str:
    """What NVIDIA sends with every video, as the model was trained to read JSON.

    The text of `cosmos_framework/inference/defaults/neg_prompts.json` in NVIDIA/cosmos-framework at 5eee9ed, the same
    as in the cookbooks of NVIDIA/cosmos; its licence lies beside it.
    """
    text = resources.files(__package__).joinpath("negative_prompt.json").read_text(encoding="utf-8")
    return json.dumps(json.loads(text))


def default_negative_prompt(mode: Mode) -> str:
    """NVIDIA's for the mode. It is always sent: engines differ in what they do without one."""
    return nvidia_negative_prompt() if mode in ("t2v", "i2v", "v2v", "transfer") else ""


def prompt_text(field: str, prompt: object) -> str:
    """A prompt as the model reads it. Raises Failure where it is none, or too long.

    Structured prompts are written in ASCII, as those that it was trained on. Engines differ in what they make of space
    around it: there is none.
    """
    if not isinstance(prompt, str | dict) or too_deep(prompt):
        raise Failure("InvalidInput", f"{field}: is no prompt.", "Write text, or JSON as NVIDIA's examples are.")
    text = prompt.strip() if isinstance(prompt, str) else json.dumps(prompt)
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise Failure(
            "InvalidInput", f"{field}: holds half of a surrogate pair, which is no character.", "Write it anew."
        ) from error
    if size > PROMPT_LIMIT:
        raise Failure(
            "InvalidInput",
            f"{field}: {size:,} bytes are too many.",
            f"Shorten it to {PROMPT_LIMIT:,} bytes of UTF-8; NVIDIA's own have 8,000 to 15,000.",
        )
    return text


def is_structured(text: str) -> bool:
    """Whether it is NVIDIA's JSON, which says its size and duration itself."""
    if not text.lstrip().startswith("{"):
        return False
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def refuse_upsampling(mode: Mode, is_configured: bool) -> None:
    """Raises Failure where no model can write the prompt."""
    if mode not in UPSAMPLED:
        raise Failure(
            "InvalidInput",
            f"upsamplePrompt: is for {', '.join(UPSAMPLED)}, and the mode is {mode}.",
            "Leave it out, and describe the scene in the prompt.",
        )
    if not is_configured:
        raise Failure(
            "InvalidInput",
            "upsamplePrompt: no model is configured that writes prompts.",
            "Set promptUpsampling of app.pipelines.useNvidiaCosmos3 in config.json and deploy, or leave it out.",
        )


def settle_sequence_length(asked: int | None, prompt_tokens: int, negative_tokens: int) -> int:
    """`max_sequence_length` for an engine: never less than the prompts need. Raises Failure where some would be cut.

    For whoever has the model's tokenizer; tokens are those of the whole text, template and special tokens included.
    """
    needed = max(prompt_tokens, negative_tokens)
    if needed > (asked or SEQUENCE_LIMIT):
        which = "prompt" if prompt_tokens >= negative_tokens else "negativePrompt"
        raise Failure(
            "InvalidInput",
            f"{which}: has {needed:,} tokens, and maxSequenceLength is {asked or SEQUENCE_LIMIT:,}: it would be cut.",
            "Shorten it, or leave maxSequenceLength out." if asked else "Shorten it.",
        )
    return asked or max(SEQUENCE_LEAST, needed)
