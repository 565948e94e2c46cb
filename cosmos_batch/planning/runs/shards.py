"""Split the items of a run into shards, the objects that the children of the Distributed Map read."""

import itertools
from collections.abc import Iterable, Iterator, Sequence

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.runs import SHARD_ITEMS, RunItem, ShardRef

SHARDS_LIMIT = 100_000  # an id has five digits
FIRST_SHARD_ITEMS = 10
_DOUBLINGS = 10  # more than enough to come from `FIRST_SHARD_ITEMS` to `SHARD_ITEMS`


def shard_size(number: int) -> int:
    """Return the most items of a pipeline's shard with this number, from 0.

    Each shard has twice as many as the one before, up to `SHARD_ITEMS`. The lines of a shard are written when all of
    its items have ended: so the table of a small run grows early, and a large run has only five shards more.

    >>> [shard_size(number) for number in (0, 1, 2, 3, 4, 5, 99_999)]
    [10, 20, 40, 80, 160, 250, 250]
    """
    return min(SHARD_ITEMS, FIRST_SHARD_ITEMS << min(number, _DOUBLINGS))


def item_line(item: RunItem) -> bytes:
    """Return an item as one line of a shard. What is absent is left out."""
    return item.model_dump_json(exclude_defaults=True).encode() + b"\n"


def in_any_state(item: RunItem) -> RunItem:
    """Return an item that takes its files in whatever state they are."""
    return item.model_copy(update={"etag": None, "size": None, "more_etags": []})


def shards_of(
    lines: Iterable[bytes], run: str, pipelines: Sequence[str], first: int = 0
) -> Iterator[tuple[ShardRef, bytes]]:
    """Yield each shard with its content, for any number of lines in constant memory.

    Every pipeline gets a shard for the same items, one after the other, so that all of them advance alike. `first` is
    the number of the first shard. Raises Failure if there are more shards than ids.
    """
    numbers = itertools.count(first)
    sizes = map(shard_size, itertools.count(first // len(pipelines)))
    rest = iter(lines)
    while chunk := list(itertools.islice(rest, next(sizes))):
        content = b"".join(chunk)
        for pipeline in pipelines:
            number = next(numbers)
            if number >= SHARDS_LIMIT:
                raise Failure(
                    "InvalidInput",
                    f"The run has more than {SHARDS_LIMIT:,} shards of at most {SHARD_ITEMS} items.",
                    "Start several runs, each over a part of the inputs or with one of the pipelines.",
                )
            yield ShardRef(run=run, shard=f"{number:05}", pipeline=pipeline, items=len(chunk)), content
