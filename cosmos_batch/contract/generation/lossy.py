"""Modes in which an engine is faster and makes something else. Off by default, and named wherever they are on."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator

LossyMode = Literal["fp8", "stepCache"]

FP8_CAPABILITY = (8, 9)
"""The least compute capability of a GPU that multiplies matrices in FP8."""


def _each_once(modes: list[LossyMode]) -> list[LossyMode]:
    if len(set(modes)) != len(modes):
        raise ValueError("names a mode twice; name each once")
    return modes


LossyModes = Annotated[list[LossyMode], AfterValidator(_each_once)]


def named(engine: str, lossy: Sequence[str]) -> str:
    """An engine with the modes that change what it makes: with others, it is another."""
    return f"{engine} ({', '.join(sorted(lossy))})" if lossy else engine
