"""The state table's limits: what an end of an item writes to a run's partition, and a table that throttles."""

import threading
from types import SimpleNamespace
from typing import Any

import botocore.endpoint
import pytest
from botocore.awsrequest import AWSResponse

from benchmarks.runs_simulation_results import UNITS_PER_END
from cosmos_batch.contract.runs import SHARD_ITEMS, ShardRef
from cosmos_batch.state import ItemEnd, Runs
from lambdas.clients import Throttled
from tests.lambdas.cloud import TABLE
from tests.lambdas.runs.conftest import RUN, RunFixture
from tests.support.aws_answers import aws_answer

WRITE_UNIT = 1024  # bytes of a row that DynamoDB writes for one unit
LONG_TOKEN = "t" * 1024  # the longest task token that Step Functions gives


def size_of(value: dict[str, Any]) -> int:
    """Return the bytes of a value, by DynamoDB's rules (developer guide, "DynamoDB Item sizes and formats")."""
    [(kind, content)] = value.items()
    if kind == "M":
        return 3 + sum(1 + len(name) + size_of(one) for name, one in content.items())
    sizes = {"N": lambda number: len(number) // 2 + 2, "S": lambda text: len(text.encode())}
    if kind in ("NS", "SS"):
        return 3 + sum(1 + sizes[kind[0]](one) for one in content)
    return sizes[kind](content) if kind in sizes else 1


def test_each_end_of_an_item_writes_no_more_units_than_the_simulation_counts(bench: RunFixture) -> None:
    """All shards of a run lie in one partition, which takes 1,000 units a second. The row is largest at its end."""
    run = "r" * 64
    ref = ShardRef(run=run, shard="00000", pipeline="cosmos3-super-reason", items=SHARD_ITEMS)
    runs = Runs(bench.cloud.table)
    runs.feed(ref, LONG_TOKEN, 123.456789)
    runs.planned(run, ref.shard, f"{run}-12345678")
    runs.fed(run, ref.shard, SHARD_ITEMS, 12345.678)
    for index in range(SHARD_ITEMS):
        runs.count(run, ref.shard, {index: ItemEnd("succeeded", gpu_seconds=1.234567, dollars=0.000123456)})
    key = {"pk": {"S": f"run#{run}"}, "sk": {"S": "shard#00000"}}
    row = bench.cloud.dynamodb.get_item(TableName=TABLE, Key=key)["Item"]
    size = sum(len(name) + size_of(value) for name, value in row.items())
    assert 2 * WRITE_UNIT < size <= UNITS_PER_END * WRITE_UNIT


class LimitedTable:
    """A table that takes so many writes, and then throttles until it is given more."""

    def __init__(self, writes: int) -> None:
        self.writes, self.refused, self._lock = writes, 0, threading.Lock()

    def answer(self, request: Any, **_: object) -> AWSResponse | None:
        """Refuse a write where the table has taken its writes; None lets it pass."""
        if not request.headers["X-Amz-Target"].endswith((b"PutItem", b"UpdateItem")):
            return None
        with self._lock:
            self.writes -= 1
            if self.writes >= 0:
                return None
            self.refused += 1
        return aws_answer(400, b'{"__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"}')


def test_a_shard_is_fed_once_by_a_table_that_throttles(bench: RunFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many shards that are fed at once exceed what a new table takes: calls, and then the state, are tried again."""
    ref = bench.write(bench.items(*(f"{number:02}" for number in range(8))))
    bench.prepare()
    limited, events = LimitedTable(12), bench.cloud.dynamodb.meta.events
    monkeypatch.setattr(botocore.endpoint, "time", SimpleNamespace(sleep=lambda _: None))
    events.register_first("before-send.dynamodb", limited.answer)
    try:
        with pytest.raises(Throttled, match="ProvisionedThroughputExceededException"):
            bench.feed(ref)
        assert limited.refused, "the function tried again before it failed"
        limited.writes = 1000
        bench.feed(ref, token="again")
    finally:
        events.unregister("before-send.dynamodb", limited.answer)
    jobs = {message["job"]["jobId"] for message in bench.sent()}
    assert (len(jobs), bench.shard().jobs, bench.shard().state) == (8, 8, "RUNNING")
    run = bench.runs.get(RUN)
    assert run is not None and list(run.reservations) == [ref.shard]
