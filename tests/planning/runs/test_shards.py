"""Shards: ids, sizes and constant memory."""

import tracemalloc

import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.runs import RunItem
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


def sizes(items: int, pipelines: int = 1, first: int = 0) -> list[int]:
    names = [f"p{number}" for number in range(pipelines)]
    return [ref.items for ref, _ in shards_of([b"{}\n"] * items, "run", names, first)]


def test_a_hundred_items_have_several_shards_so_that_their_table_grows_early() -> None:
    assert sizes(100) == [10, 20, 40, 30]
    assert sizes(3) == [3]


def test_a_large_run_has_hardly_more_shards_than_it_needs() -> None:
    assert sizes(10_000)[5:-1] == [250] * 38
    assert len(sizes(10_000)) <= 10_000 / 250 + 5


def test_the_shards_of_several_pipelines_grow_alike() -> None:
    assert sizes(50, pipelines=2) == [10, 10, 20, 20, 20, 20]


def test_shards_that_follow_earlier_ones_are_as_large_as_if_all_were_cut_at_once() -> None:
    assert sizes(100 - 30, first=2) == sizes(100)[2:]
    assert sizes(50, pipelines=2, first=4) == [40, 40, 10, 10]


def test_a_run_has_no_more_shards_than_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SHARDS_LIMIT", 2)
    lines = [b"{}\n"] * 30
    assert len(list(shards_of(lines, "run", ["p"]))) == 2
    with pytest.raises(Failure, match="Start several runs"):
        list(shards_of([*lines, b"{}\n"], "run", ["p"]))
