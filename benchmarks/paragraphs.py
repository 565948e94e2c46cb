"""Wrap the paragraphs of `docs/benchmarks.md`, and list the numbers in them."""

import textwrap
from collections.abc import Iterable

WIDTH = 118  # characters of a line


def filled(text: str, subsequent_indent: str = "") -> str:
    """Return a paragraph in lines of at most `WIDTH` characters; words with hyphens stay whole."""
    return textwrap.fill(text, WIDTH, subsequent_indent=subsequent_indent, break_on_hyphens=False)


def listed(values: Iterable[float], digits: int) -> str:
    """Return numbers with so many digits behind the point, with commas between them, and "and" before the last."""
    *others, last = [f"{value:.{digits}f}" for value in values] or [""]
    return f"{', '.join(others)} and {last}" if others else last
