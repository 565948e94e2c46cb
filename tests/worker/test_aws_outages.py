"""While AWS is unavailable a worker receives nothing, so that no job loses its receipts."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from cosmos_batch.worker import server_outages
from cosmos_batch.worker.aws_outages import AwsOutage
from tests.worker.conftest import WorkerFixture
from tests.worker.engines import PATIENCE, until

AWAY = EndpointConnectionError(endpoint_url="https://dynamodb")


def refused(code: str, status: int) -> ClientError:
    answer: Any = {"Error": {"Code": code, "Message": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "UpdateItem")


def test_a_worker_receives_no_job_while_the_state_table_is_unavailable(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_outages, "FIRST_PROBE", 0.05)
    monkeypatch.setattr(server_outages, "LONGEST_PROBE", 0.1)
    for name in ("before", "first", "second"):
        bench.job(name)
    worker = bench.worker(idle_seconds=600, heartbeat_seconds=600)
    calls: list[str] = []

    def unavailable(**arguments: Any) -> Any:
        calls.append(arguments["Key"]["sk"]["S"])
        raise AWAY

    async def scene() -> None:
        serving = asyncio.create_task(worker.serve())
        bench.send(bench.job("before", create=False))
        await until(lambda: (row := bench.workers.get("worker-1")) is not None and row.completed == 1)
        with monkeypatch.context() as outage:
            for operation in ("get_item", "update_item"):
                outage.setattr(bench.table._client, operation, unavailable)
            bench.send(bench.job("first", create=False))
            await until(lambda: "worker#worker-1" in calls)  # the receive that was under way has ended
            bench.send(bench.job("second", create=False))
            probes = len(calls)
            await until(lambda: len(calls) >= probes + 5)
            assert bench.waiting() == (1, 1), "only the first job was received"
        await until(lambda: len(bench.stepfunctions.calls_of("success")) == 2)
        worker.loop.stop()
        await serving

    asyncio.run(asyncio.wait_for(scene(), PATIENCE))
    row = bench.jobs.get("second")
    assert row is not None and (row.state, row.attempts, row.give_backs) == ("SUCCEEDED", 1, 0)


def test_pauses_grow_until_a_job_ends_without_a_fault_of_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_outages, "FIRST_PROBE", 1000.0)
    monkeypatch.setattr(server_outages, "LONGEST_PROBE", 4000.0)
    outage = AwsOutage()

    async def written() -> None:
        pass

    for _ in range(2):
        for longest in (1000, 2000, 4000, 4000):
            outage.job_ended(AWAY)
            outage.job_ended(AWAY)  # another job that was in hand
            assert outage.is_on and 0.5 * longest < outage.seconds_until_probe <= longest
            asyncio.run(outage.probe(written))
            assert not outage.is_on
        outage.job_ended(None)


@pytest.mark.parametrize("error", [RuntimeError("a defect"), refused("AccessDeniedException", 400)])
def test_a_job_that_ends_by_another_fault_is_no_outage(error: Exception) -> None:
    outage = AwsOutage()
    outage.job_ended(error)
    assert not outage.is_on
    outage.job_ended(refused("InternalServerError", 500))
    assert outage.is_on


@pytest.mark.parametrize("fault", [AWAY, refused("ThrottlingException", 400)])
def test_a_job_in_hand_is_answered_while_sqs_is_unavailable(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fault: Exception
) -> None:
    monkeypatch.setattr(server_outages, "FIRST_PROBE", 0.05)
    monkeypatch.setattr(server_outages, "LONGEST_PROBE", 0.1)
    end = tmp_path / "end"
    bench.send(bench.job("held", prompt=json.dumps({"until": str(end)})))
    worker = bench.worker(idle_seconds=600, heartbeat_seconds=600)
    refusals: list[Exception] = []

    def unavailable(**_: Any) -> Any:
        refusals.append(fault)
        raise fault

    async def scene() -> None:
        serving = asyncio.create_task(worker.serve())
        await until(lambda: bench.attempts("held") == 1)
        with monkeypatch.context() as outage:
            outage.setattr(worker.runner.queue._sqs, "receive_message", unavailable)
            await until(lambda: len(refusals) >= 3 or serving.done())
        assert not serving.done(), "the worker goes on"
        bench.send(bench.job("later"))
        await until(lambda: (row := bench.jobs.get("later")) is not None and row.state == "SUCCEEDED")
        end.touch()
        await until(lambda: len(bench.stepfunctions.calls_of("success")) == 2)
        worker.loop.stop()
        await serving

    asyncio.run(asyncio.wait_for(scene(), PATIENCE))
    held = bench.jobs.get("held")
    assert held is not None and (held.state, held.attempts, held.give_backs) == ("SUCCEEDED", 1, 0)


NEWER, UNREADABLE = '{"schemaVersion": 999}', "no job"


@pytest.mark.parametrize(
    ("body", "operation"),
    [(NEWER, "update_item"), (NEWER, "change_message_visibility"), (UNREADABLE, "delete_message")],
)
def test_a_job_in_hand_is_answered_if_aws_fails_while_another_message_is_accepted(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str, operation: str
) -> None:
    """The other message stays in the queue, and the worker that receives it next handles it."""
    end = tmp_path / "end"
    bench.send(bench.job("held", prompt=json.dumps({"until": str(end)})))
    worker = bench.worker(idle_seconds=600, heartbeat_seconds=600)
    client = bench.table._client if operation == "update_item" else worker.runner.queue._sqs
    failed: list[str] = []

    def fail(**_: Any) -> Any:
        failed.append(operation)
        raise refused("ThrottlingException", 400)

    async def scene() -> None:
        serving = asyncio.create_task(worker.serve())
        await until(lambda: bench.attempts("held") == 1 and worker.loop._attempts)
        with monkeypatch.context() as outage:
            outage.setattr(client, operation, fail)
            bench.sqs.send_message(QueueUrl=bench.queue_url, MessageBody=body)
            await until(lambda: failed)
        end.touch()
        await until(lambda: bench.stepfunctions.calls_of("success") or serving.done())
        worker.loop.stop()
        await serving

    asyncio.run(asyncio.wait_for(scene(), PATIENCE))
    held = bench.jobs.get("held")
    assert held is not None and (held.state, held.attempts, held.give_backs) == ("SUCCEEDED", 1, 0)
    assert bench.waiting() == (0, 1), "its visibility timeout has not passed"
    assert serves(bench) is (body != NEWER), "a worker that must drain has said so by now"


def serves(bench: WorkerFixture) -> bool:
    row = bench.workers.get("worker-1")
    return row is not None and row.state == "READY"


def test_a_worker_without_work_leaves_while_the_state_table_is_unavailable(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = bench.worker()

    def unavailable(*_: Any) -> Any:
        raise AWAY

    monkeypatch.setattr(bench.workers, "draining", unavailable)
    worker.run()


def test_a_job_that_comes_while_a_worker_leaves_is_answered_if_the_state_table_fails_then(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The row that says that the worker leaves is corrected as soon as it can be written."""
    end = tmp_path / "end"
    worker = bench.worker(idle_seconds=600, heartbeat_seconds=600)
    worker.loop._busy_at = float("-inf")
    draining, ready = bench.workers.draining, bench.workers.ready
    failed: list[str] = []

    def announce(*arguments: Any) -> Any:
        row = draining(*arguments)
        bench.send(bench.job("late", prompt=json.dumps({"until": str(end)})))
        monkeypatch.setattr(bench.workers, "ready", fail_once)
        return row

    def fail_once(name: str) -> Any:
        failed.append(name)
        monkeypatch.setattr(bench.workers, "ready", ready)
        raise AWAY

    monkeypatch.setattr(bench.workers, "draining", announce)

    async def scene() -> None:
        serving = asyncio.create_task(worker.serve())
        await until(lambda: failed)
        await until(lambda: serving.done() or serves(bench))
        assert not serving.done(), "the worker goes on"
        end.touch()
        await until(lambda: bench.stepfunctions.calls_of("success"))
        worker.loop.stop()
        await serving

    asyncio.run(asyncio.wait_for(scene(), PATIENCE))
    late = bench.jobs.get("late")
    assert late is not None and (late.state, late.attempts, late.give_backs) == ("SUCCEEDED", 1, 0)


def test_a_worker_that_may_not_receive_ends(bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = bench.worker(idle_seconds=600)

    def refuse(**_: Any) -> Any:
        raise refused("AccessDenied", 403)

    monkeypatch.setattr(worker.runner.queue._sqs, "receive_message", refuse)
    with pytest.raises(ClientError, match="AccessDenied"):
        worker.run()
