"""The counts of a run, from the rows of its shards."""

from typing import Any

import pytest

from cosmos_batch.cli.runs.run_snapshot import RunCounts, counts_of
from cosmos_batch.state import RunRow, ShardRow

ENDED: dict[str, Any] = {"state": "ENDED", "succeeded": 1, "cancelled": 2, "gpu_seconds": 8.0, "dollars": 0.5}


def row(**values: Any) -> RunRow:
    arn = "arn:aws:states:us-east-1:1:execution:runs:second"
    values = {"state": "RUNNING", "execution_arn": arn, **values}
    return RunRow(id="r", items=5, shards=2, started_at="2026-11-01T00:00:00Z", **values)


def shard(**values: Any) -> ShardRow:
    return ShardRow(run="r", shard="00000", pipeline="p", items=3, **values)


def test_items_that_a_resumed_run_has_still_to_feed_again_wait() -> None:
    """Between its start and its first shards, a resumed run would seem to be done."""
    counts = counts_of(row(), [shard(**ENDED, planned_by="first")])
    assert counts == RunCounts(items=5) and counts.waiting == 5


@pytest.mark.parametrize(
    ("run", "planned_by"),
    [
        ({}, "second"),  # a job of the execution that feeds it now was cancelled
        ({"state": "CANCELLED"}, "first"),
        ({"ended_at": "2026-11-01T01:00:00Z"}, "first"),
    ],
)
def test_cancelled_items_that_nobody_feeds_again_have_ended(run: dict[str, Any], planned_by: str) -> None:
    counts = counts_of(row(**run), [shard(**ENDED, planned_by=planned_by)])
    assert (counts.done, counts.cancelled, counts.gpu_seconds, counts.dollars) == (3, 2, 8.0, 0.5)


def test_a_shard_without_cancelled_items_is_not_fed_again() -> None:
    counts = counts_of(row(), [shard(state="ENDED", succeeded=2, failed=1, planned_by="first")])
    assert (counts.succeeded, counts.failed, counts.waiting) == (2, 1, 2)
