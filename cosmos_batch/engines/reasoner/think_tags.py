"""Separating a model's reasoning from its answer, by the tags `<think>` and `</think>`."""

import re

OPEN, CLOSE = "<think>", "</think>"
_TAG = re.compile(f"({OPEN}|{CLOSE})")


def split_reasoning(text: str) -> tuple[str, str | None]:
    """Return answer and reasoning of `<think>reasoning</think>answer`, without the tags; None if there is no reasoning.

    No text is lost where a model breaks the format. Without tags all of it is the answer. What stands before a lone
    `</think>` is reasoning, because a chat template may have opened the tag. If the text ends inside of the reasoning,
    the answer is empty.
    """
    parts = _TAG.split(text)
    tags = parts[1::2]
    inside = bool(tags) and tags[0] == CLOSE
    answer: list[str] = []
    reasoning: list[str] = []
    for part in parts:
        if part in (OPEN, CLOSE):
            inside = part == OPEN
        else:
            (reasoning if inside else answer).append(part)
    return "".join(answer).strip(), "".join(reasoning).strip() or None
