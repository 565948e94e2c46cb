"""Wrap the paragraphs of `docs/benchmarks.md`."""

import textwrap

WIDTH = 118  # characters of a line


def filled(text: str, subsequent_indent: str = "") -> str:
    """Return a paragraph in lines of at most `WIDTH` characters; words with hyphens stay whole."""
    return textwrap.fill(text, WIDTH, subsequent_indent=subsequent_indent, break_on_hyphens=False)
