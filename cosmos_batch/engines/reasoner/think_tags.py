"""Parting what a model thought from what it answered."""

import re

OPEN, CLOSE = "<think>", "</think>"
_TAG = re.compile(f"({OPEN}|{CLOSE})")


def split_reasoning(text: str) -> tuple[str, str | None]:
    """The answer and the reasoning of `<think>reasoning</think>answer`, without their tags; None for no reasoning.

    Models break the format, and nothing they say is lost when they do: an answer without tags is all answer; a chat
    template may have opened the tag already, so what stands before a lone `</think>` is reasoning; an answer cut off
    while the model was thinking is all reasoning, and its answer is empty.
    """
    parts = _TAG.split(text)
    tags = parts[1::2]
    thinking = bool(tags) and tags[0] == CLOSE
    said: list[str] = []
    thought: list[str] = []
    for part in parts:
        if part in (OPEN, CLOSE):
            thinking = part == OPEN
        else:
            (thought if thinking else said).append(part)
    return "".join(said).strip(), "".join(thought).strip() or None
