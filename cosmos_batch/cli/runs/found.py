"""One input of a run, and where it was found."""

from typing import NamedTuple

from cosmos_batch.contract.runs import RunItem


class Found(NamedTuple):
    """An item before sweeps. `source` and `line` say where a person can correct it."""

    item: RunItem
    source: str
    line: int
