"""A job whose caller is gone is dropped, and a caller that may still wait is never given up."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.parsers import ResponseParserError
from urllib3.exceptions import HTTPError

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.metrics import FOREIGN_TOKENS
from cosmos_batch.contract.result import Result
from cosmos_batch.worker.logs import JsonLines
from cosmos_batch.worker.queue import Delivery
from tests.worker.conftest import WorkerFixture
from tests.worker.engines import PATIENCE, Counting, until


def test_a_cancelled_job_stays_cancelled_after_its_worker_drops_it(bench: WorkerFixture) -> None:
    bench.send(bench.job(prompt=json.dumps({"seconds": 600})))
    engine = Counting()
    worker = bench.worker(engine=engine)

    async def scene() -> None:
        serving = asyncio.create_task(worker.serve())
        await until(lambda: engine.inside == 1)
        bench.jobs.close("one", Result(job_id="one"), cancelled=True)
        bench.stepfunctions.gone.add("token-one")
        await serving

    asyncio.run(asyncio.wait_for(scene(), PATIENCE))
    row = bench.jobs.get("one")
    assert row is not None
    assert row.state == "CANCELLED"


@pytest.mark.parametrize("state", ["CANCELLED", "gone"])
def test_a_job_whose_execution_is_gone_is_dropped(bench: WorkerFixture, state: str) -> None:
    bench.send(bench.job())
    if state == "gone":
        bench.stepfunctions.gone.add("token-one")
    else:
        error = Error(code="Cancelled", message="Stopped.", remedy="Start it again.")
        bench.jobs.close("one", Result(job_id="one", error=error), cancelled=True)
        bench.stepfunctions.gone.add("token-one")
    engine = Counting()
    bench.worker(engine=engine).run()
    assert engine.most == 0
    assert bench.stepfunctions.calls_of("success") == bench.stepfunctions.calls_of("failure") == []
    assert bench.waiting() == (0, 0)


def test_a_stopped_execution_frees_its_place_in_the_engine(bench: WorkerFixture) -> None:
    bench.send(bench.job(prompt=json.dumps({"seconds": 600})))
    engine = Counting()
    worker = bench.worker(engine=engine)

    async def scene() -> None:
        serving = asyncio.create_task(worker.serve())
        await until(lambda: engine.inside == 1)
        bench.stepfunctions.gone.add("token-one")
        await until(lambda: engine.inside == 0)
        await serving

    asyncio.run(asyncio.wait_for(scene(), PATIENCE))
    row = bench.jobs.get("one")
    assert row is not None
    assert (row.winner, row.attempts) == (None, 0)
    assert bench.waiting() == (0, 0)


@pytest.mark.parametrize("code", ["ThrottlingException", "InternalServerError", "InvalidToken"])
def test_a_job_is_kept_when_a_heartbeat_has_no_clear_response(bench: WorkerFixture, code: str) -> None:
    bench.send(bench.job(prompt=json.dumps({"seconds": 1.5})))
    stepfunctions = bench.stepfunctions
    worker = bench.worker()
    original = stepfunctions.send_task_heartbeat

    def fail(**arguments: Any) -> None:
        original(**arguments)
        raise ClientError({"Error": {"Code": code, "Message": ""}}, "SendTaskHeartbeat")

    stepfunctions.send_task_heartbeat = fail  # type: ignore[method-assign]
    worker.run()
    assert len(stepfunctions.calls_of("heartbeat")) >= 2
    assert len(stepfunctions.calls_of("success")) == 1


@pytest.mark.parametrize(
    "fault",
    [ResponseParserError("<html>"), HTTPError("the body was broken off"), RuntimeError("broken")],
    ids=["parser", "body", "other"],
)
def test_a_broken_heartbeat_does_not_drop_the_job(bench: WorkerFixture, fault: Exception) -> None:
    """A response that cannot be parsed or read counts as none. Any other error leaves the message in the queue."""
    bench.send(bench.job(prompt=json.dumps({"seconds": 2.5})))
    stepfunctions = bench.stepfunctions
    original = stepfunctions.send_task_heartbeat

    def fail(**arguments: Any) -> None:
        original(**arguments)
        if len(stepfunctions.calls_of("heartbeat")) > 1:
            raise fault

    stepfunctions.send_task_heartbeat = fail  # type: ignore[method-assign]
    bench.worker().run()
    tolerated = not isinstance(fault, RuntimeError)
    assert len(stepfunctions.calls_of("success")) == int(tolerated)
    assert bench.waiting() == ((0, 0) if tolerated else (0, 1))


@pytest.mark.parametrize("fault", [ResponseParserError("<html>"), HTTPError("the body was broken off")])
def test_an_item_is_kept_when_its_rows_cannot_be_read(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    def broken(**_arguments: Any) -> Any:
        raise fault

    past = datetime.now(UTC) - timedelta(hours=1)
    delivery = Delivery("handle", None, bench.job(deadline=past), datetime.now(UTC), run="r")
    callers = bench.worker().runner.callers
    monkeypatch.setattr(bench.table._client, "get_item", broken)
    assert callers.state(delivery) == "unknown"
    assert callers.deadline(delivery.job) == past


def test_a_token_of_another_account_is_counted_as_a_metric(
    bench: WorkerFixture, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(**_arguments: Any) -> None:
        raise ClientError({"Error": {"Code": "InvalidToken", "Message": ""}}, "SendTaskHeartbeat")

    bench.stepfunctions.send_task_heartbeat = refuse  # type: ignore[method-assign]
    job = bench.job(prompt=json.dumps({"seconds": 1.5}))
    bench.send(job)
    bench.worker().run()
    call = [json.loads(JsonLines().format(record)) for record in caplog.records if hasattr(record, FOREIGN_TOKENS)]
    assert call[0][FOREIGN_TOKENS] == 1 and call[0]["pipeline"] == job.pipeline
    assert call[0]["_aws"]["CloudWatchMetrics"][0]["Metrics"] == [{"Name": FOREIGN_TOKENS, "Unit": "Count"}]
