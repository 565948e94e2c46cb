"""The functions that see a whole run take the same memory for any number of its items."""

import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cosmos_batch.contract.s3 import parse_uri
from cosmos_batch.state import RunRow, Runs, Table
from lambdas.runs.finish import summary_of
from lambdas.runs.objects import RunObjects
from lambdas.runs.prefix_run import PrefixShards
from tests.lambdas.runs.conftest import RUN
from tests.support.many_objects import ManyObjects

ROW = RunRow(id=RUN, state="RUNNING", started_at="2026-11-23T06:00:00+00:00")


class ManyShards:
    """A fake of DynamoDB with the rows of any number of shards that have ended."""

    def __init__(self, count: int) -> None:
        self._count = count

    def get_paginator(self, _: str) -> "ManyShards":
        return self

    def paginate(self, **_: object) -> Iterator[dict[str, Any]]:
        for number in range(self._count):
            numbers = {"items": {"N": "250"}, "succeeded": {"N": "250"}, "dollars": {"N": "0.5"}}
            texts = {"run": {"S": RUN}, "shard": {"S": f"{number:05}"}, "pipeline": {"S": "p"}, "state": {"S": "ENDED"}}
            seconds = {"seconds": {"M": {str(each): {"N": "1"} for each in range(100)}}}
            yield {"Items": [{**numbers, **texts, **seconds}]}


def peak(work: Callable[[], None]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_memory_of_a_summary_does_not_grow_with_the_shards() -> None:
    def summed(count: int) -> int:
        runs = Runs(Table(ManyShards(count), "state"))
        return peak(lambda: _check(summary_of(ROW.model_copy(update={"items": 250 * count}), runs).succeeded, count))

    summed(1)
    assert summed(800) < summed(200) + 100_000, "the rows of 600 shards have 6 MB"


def _check(succeeded: int, shards: int) -> None:
    assert succeeded == 250 * shards


def test_the_memory_of_a_listing_does_not_grow_with_the_items(monkeypatch: pytest.MonkeyPatch) -> None:
    def listed(count: int) -> int:
        s3 = ManyObjects(count)
        monkeypatch.setattr("lambdas.runs.prefix_run.client", lambda _: s3)
        monkeypatch.setattr("lambdas.runs.objects.client", lambda _: s3)
        return peak(lambda: _write_shards(count))

    listed(1)
    assert listed(20_000) < listed(5000) + 300_000, "15,000 items have 1.6 MB"


def _write_shards(count: int) -> None:
    refs = PrefixShards(parse_uri("s3://assets/clips/"), RUN, "p", RunObjects("state", RUN)).write()
    assert sum(ref.items for ref in refs) == count
