"""A question as S3 metadata. S3 keeps 2 KB of ASCII in all, and drops spaces at the ends of a value."""

import base64
import json
from typing import Any

from cosmos_batch.cli.question import Question
from cosmos_batch.contract.metadata import PARAMETERS, PIPELINE, PROMPT, SYSTEM_PROMPT

# Of S3's 2 KB, what names and values may take here; the rest is left to tools that add metadata of their own.
_METADATA_LIMIT = 1536


def metadata(question: Question, pipeline: str) -> dict[str, str]:
    """What `upload` reads from a file's metadata, as plain text."""
    said = question.parameters.model_dump(exclude_unset=True)
    values = {key: _as_text(said[alias]) for key, alias in PARAMETERS.items() if alias in said}
    prompts = {PROMPT: question.prompt, SYSTEM_PROMPT: question.system_prompt}
    return {**{key: text for key, text in prompts.items() if text is not None}, PIPELINE: pipeline, **values}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def encoded(text: str) -> str:
    """A header value from which `decode_header` gives back the text: itself, or one RFC 2047 encoded word.

    The word may be longer than the RFC's 75 characters, as those that S3 itself sends are: nothing folds it.
    """
    if text.isascii() and text.isprintable() and text == text.strip() and "=?" not in text:
        return text
    return f"=?utf-8?b?{base64.b64encode(text.encode()).decode()}?="


def headers(values: dict[str, str]) -> dict[str, str] | None:
    """The values as S3 user metadata; None where they do not fit and a sidecar must carry them."""
    fields = {name: encoded(value) for name, value in values.items()}
    size = sum(len(name) + len(value) for name, value in fields.items())
    return fields if size <= _METADATA_LIMIT else None


def sidecar(values: dict[str, str]) -> bytes:
    """The content of `<key>.metadata.json`."""
    return json.dumps(values, ensure_ascii=False, indent=2).encode()
