"""Split the items of a run into shards, the objects that the children of the Distributed Map read."""

import itertools
from collections.abc import Iterable, Iterator, Sequence

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.runs import SHARD_ITEMS, RunItem, ShardRef

SHARDS_LIMIT = 100_000  # an id has five digits


def item_line(item: RunItem) -> bytes:
    """Return an item as one line of a shard. What is absent is left out."""
    return item.model_dump_json(exclude_defaults=True).encode() + b"\n"


def shards_of(
    lines: Iterable[bytes], run: str, pipelines: Sequence[str], first: int = 0
) -> Iterator[tuple[ShardRef, bytes]]:
    """Yield each shard with its content, for any number of lines in constant memory.

    Every pipeline gets a shard for the same items, one after the other, so that all of them advance alike. `first` is
    the number of the first shard. Raises Failure if there are more shards than ids.
    """
    numbers = itertools.count(first)
    rest = iter(lines)
    while chunk := list(itertools.islice(rest, SHARD_ITEMS)):
        content = b"".join(chunk)
        for pipeline in pipelines:
            number = next(numbers)
            if number >= SHARDS_LIMIT:
                raise Failure(
                    "InvalidInput",
                    f"The run has more than {SHARDS_LIMIT:,} shards of {SHARD_ITEMS} items.",
                    "Start several runs, each over a part of the inputs or with one of the pipelines.",
                )
            yield ShardRef(run=run, shard=f"{number:05}", pipeline=pipeline, items=len(chunk)), content
