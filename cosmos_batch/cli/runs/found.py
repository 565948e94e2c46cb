"""One input of a run, and where it was found."""

from typing import NamedTuple

from cosmos_batch.contract.runs import RunItem


class Found(NamedTuple):
    """An input as its source lists it, before a sweep multiplies it. `source` and `line` say where to correct it."""

    item: RunItem
    source: str
    line: int
