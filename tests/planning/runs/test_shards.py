"""Shards: ids, sizes and constant memory."""

import tracemalloc

import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.runs import SHARD_ITEMS, RunItem
from cosmos_batch.planning.runs import shards
from cosmos_batch.planning.runs.shards import item_line, shards_of


def test_an_item_is_a_line_without_what_is_absent() -> None:
    item = RunItem(id="é\n", input="s3://assets/a.mp4")
    assert item_line(item) == b'{"id":"\xc3\xa9\\n","input":"s3://assets/a.mp4"}\n'


def test_a_million_lines_need_the_memory_of_one_shard() -> None:
    line = item_line(RunItem(id="1", input="s3://assets/a.mp4"))
    tracemalloc.start()
    try:
        found = sum(ref.items for ref, _ in shards_of((line for _ in range(1_000_000)), "run", ["p"]))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == 1_000_000
    assert peak < 1_000_000, "bytes"


def test_a_run_has_no_more_shards_than_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SHARDS_LIMIT", 2)
    lines = [b"{}\n"] * (SHARD_ITEMS * 2)
    assert len(list(shards_of(lines, "run", ["p"]))) == 2
    with pytest.raises(Failure, match="Start several runs"):
        list(shards_of([*lines, b"{}\n"], "run", ["p"]))
