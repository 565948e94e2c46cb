"""A sample of a run's inputs, drawn while they are read, whose headers are then read."""

import io
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cosmos_batch.cli.runs.parallel import in_parallel
from cosmos_batch.cli.runs.range_reader import RangeReader
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.runs import RunItem
from cosmos_batch.contract.s3 import parse_uri

if TYPE_CHECKING:
    from cosmos_batch.media.headers import Header

SAMPLE_SIZE = 200


class Sampled(NamedTuple):
    """An input of the sample and its header; None where there is no input, or where it cannot be read."""

    item: RunItem
    header: "Header | None"


class Sample:
    """A random sample of a stream of unknown length, each of whose items is equally likely in it (algorithm R).

    The same inputs always make the same sample.
    """

    def __init__(self, size: int = SAMPLE_SIZE) -> None:
        self._size = size
        self._random = random.Random(0)
        self._seen = 0
        self.items: list[RunItem] = []

    def add(self, item: RunItem) -> None:
        """Look at an item, and keep it in place of another or not."""
        self._seen += 1
        if len(self.items) < self._size:
            self.items.append(item)
            return
        place = self._random.randrange(self._seen)
        if place < self._size:
            self.items[place] = item


def probe_sample(s3: Any, items: Sequence[RunItem], local_path: Callable[[str], Path | None]) -> list[Sampled]:
    """Read the headers of a sample's files, in parallel. `local_path` returns where a URI's file is on this machine."""
    from botocore.exceptions import BotoCoreError, ClientError

    from cosmos_batch.media.headers import read_header

    def probe(item: RunItem) -> Sampled:
        if item.input is None:
            return Sampled(item, None)
        try:
            path = local_path(item.input)
            if path is not None:
                with path.open("rb") as file:
                    return Sampled(item, read_header(file))
            reader = RangeReader(s3, parse_uri(item.input), item.size or 0)
            return Sampled(item, read_header(io.BufferedReader(reader)))
        except (Failure, OSError, ClientError, BotoCoreError):
            return Sampled(item, None)

    return list(in_parallel(probe, items))
