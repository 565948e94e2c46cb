"""The state table's limits: what is written for an item and for a shard, and a table that throttles."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import botocore.endpoint
import pytest
from botocore.awsrequest import AWSResponse

from benchmarks.simulation.million_clips import LIMITS, UNITS_PER_END, UNITS_PER_FED_ITEM, UNITS_PER_SHARD
from cosmos_batch.contract.runs import SHARD_ITEMS, ShardRef
from cosmos_batch.state import ItemEnd, Runs
from cosmos_batch.state.feed_turns import ITEMS_PER_SECOND
from lambdas.clients import Throttled
from lambdas.runs.prepare import SHARDS_LIMIT
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
    """All shards of a run lie in one partition, which takes 1,000 units a second. The row grows with each end."""
    run = "r" * 64
    ref = ShardRef(run=run, shard="00000", pipeline="cosmos3-super-reason", items=SHARD_ITEMS)
    runs = Runs(bench.cloud.table)
    runs.shards.feed(ref, LONG_TOKEN, 123.456789)
    runs.shards.planned(run, ref.shard, f"{run}-12345678")
    runs.shards.fed(run, ref.shard, SHARD_ITEMS, 12345.678)
    units = []
    for index in range(SHARD_ITEMS):
        runs.shards.count(
            run, ref.shard, {index: ItemEnd("succeeded", gpu_seconds=1.234567, dollars=0.000123456, reused=True)}
        )
        units.append(-(-row_size(bench, f"run#{run}", "shard#00000") // WRITE_UNIT))
    assert max(units) == 2
    assert 0.9 * UNITS_PER_END < sum(units) / SHARD_ITEMS <= UNITS_PER_END


class CountedWrites:
    """Counts the writes of each row by DynamoDB's client."""

    def __init__(self) -> None:
        self.rows: Counter[tuple[str, str]] = Counter()

    def note(self, request: Any, **_: object) -> None:
        """Note a write, and let it pass."""
        if request.headers["X-Amz-Target"].endswith((b"PutItem", b"UpdateItem")):
            body = json.loads(request.body)
            key = body.get("Key") or body["Item"]
            self.rows[key["pk"]["S"], key["sk"]["S"]] += 1

    def units(self, bench: RunFixture, *partitions: str) -> int:
        """Return the units of all writes to partitions whose keys begin so, by the rows as they are now."""
        return sum(
            number * -(-row_size(bench, *key) // WRITE_UNIT)
            for key, number in self.rows.items()
            if key[0].startswith(partitions)
        )


@pytest.fixture
def writes(bench: RunFixture) -> Iterator[CountedWrites]:
    counted, events = CountedWrites(), bench.cloud.dynamodb.meta.events
    events.register_first("before-send.dynamodb", counted.note)
    yield counted
    events.unregister("before-send.dynamodb", counted.note)


def row_size(bench: RunFixture, pk: str, sk: str) -> int:
    row = bench.cloud.dynamodb.get_item(TableName=TABLE, Key={"pk": {"S": pk}, "sk": {"S": sk}})["Item"]
    return sum(len(name) + size_of(value) for name, value in row.items())


def test_an_item_is_fed_within_the_units_for_which_turns_are_given(bench: RunFixture, writes: CountedWrites) -> None:
    """The longest key of S3 has 1,024 bytes; the job's row contains that of the file and that of the document."""
    folder = "/".join(["k" * 60] * 16)
    bench.started(bench.items(f"{folder}/a"))
    units = writes.units(bench, "job#", "output#")
    assert UNITS_PER_FED_ITEM - 3 <= units <= UNITS_PER_FED_ITEM
    assert LIMITS["write units in a second while the first shards are fed"][0] >= ITEMS_PER_SECOND * UNITS_PER_FED_ITEM


def test_a_shard_writes_no_more_units_to_its_run_than_the_simulation_counts(
    bench: RunFixture, writes: CountedWrites
) -> None:
    """The run's row holds a reservation for each shard in flight, so each change of it writes several units."""
    ref = bench.write(bench.items("a"))
    bench.prepare()
    for number in range(1, SHARDS_LIMIT):
        bench.runs.reserve(RUN, f"{number:05}", 0.123456789, None)
    writes.rows.clear()
    bench.feed(ref, token=LONG_TOKEN)
    bench.answer(bench.sent()[0]["job"]["jobId"])
    bench.collect(ref)
    # The count of the item's end is one of the writes: the simulation counts it apart.
    assert 0.5 * UNITS_PER_SHARD < writes.units(bench, f"run#{RUN}") <= UNITS_PER_SHARD


class LimitedTable:
    """A table that accepts `writes` writes, and throttles further ones until it is given more."""

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
