"""The end of an attempt is stored again while AWS is unavailable, until the deadline of its job."""

import asyncio
import itertools
import math
import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from cosmos_batch.worker import attempt_endings, loop
from tests.worker.conftest import ASSETS, STATE, WorkerFixture
from tests.worker.engines import PATIENCE, Counting, until


def response(code: str, status: int, operation: str) -> ClientError:
    answer: Any = {"Error": {"Code": code, "Message": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, operation)


def failing(call: Any, error: Exception, times: float = math.inf) -> Any:
    """Return a function that raises `error` for the first `times` calls, then does what `call` does."""
    calls = itertools.count()

    def fail(*arguments: Any, **named: Any) -> Any:
        if next(calls) < times:
            raise error
        return call(*arguments, **named)

    return fail


@pytest.mark.parametrize(
    ("fault", "give_backs"),
    [
        (response("ServiceUnavailable", 503, "GetObject"), 1),
        (EndpointConnectionError(endpoint_url="https://s3"), 1),
        (RuntimeError("a defect"), 0),
    ],
)
def test_a_receipt_counts_unless_aws_was_not_available(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch, fault: Exception, give_backs: int
) -> None:
    """Otherwise an outage of some hours would fail the jobs of a queue, which are received again and again."""
    bench.send(bench.job())
    worker = bench.worker()
    monkeypatch.setattr(worker.runner.clients.s3, "get_object", failing(None, fault))
    worker.run()
    row = bench.jobs.get("one")
    assert row is not None and (row.state, row.attempts, row.give_backs) == ("PLANNED", 0, give_backs)
    assert bench.waiting() == (0, 1), "its lease lapses by itself"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt_endings, "FIRST_WAIT", 0.05)
    monkeypatch.setattr(attempt_endings, "LONGEST_WAIT", 0.2)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("part", ["update", "commit", "put_object", "finish"])
def test_a_result_is_stored_again_until_aws_takes_it(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    bench.send(bench.job())
    engine = Counting()
    worker = bench.worker(engine=engine)
    committer = worker.runner.endings.committer
    owner: Any = {"put_object": committer.s3, "update": committer.documents.table}.get(part, bench.jobs)
    monkeypatch.setattr(owner, part, failing(getattr(owner, part), response("ServiceUnavailable", 503, part), 3))
    worker.run()
    row = bench.jobs.get("one")
    assert row is not None
    assert (row.state, row.attempts, engine.runs) == ("SUCCEEDED", 1, 1)
    assert bench.document("one")
    assert bench.waiting() == (0, 0)


@pytest.mark.parametrize("bucket", [STATE, ASSETS])
def test_a_result_that_s3_refuses_fails_its_job_after_one_inference(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch, bucket: str
) -> None:
    """The state bucket gets documents that are too large for a row, and the asset bucket all of them."""
    bench.send(bench.job(prompt=secrets.token_hex(50_000) if bucket == STATE else "What?"))
    engine = Counting()
    worker = bench.worker(engine=engine)
    monkeypatch.setattr(
        worker.runner.endings.committer.s3, "put_object", failing(None, response("AccessDenied", 403, "PutObject"))
    )
    worker.run()
    row = bench.jobs.get("one")
    assert row is not None and row.result is not None and row.result.error is not None
    assert (row.state, row.attempts, engine.runs) == ("FAILED", 1, 1)
    assert f"s3:PutObject on bucket {bucket}" in row.result.error.message
    [call] = bench.stepfunctions.calls_of("failure")
    assert (call["error"], bench.stepfunctions.calls_of("success")) == ("Internal", [])
    assert bench.waiting() == (0, 0)


@pytest.mark.usefixtures("impatient")
def test_a_result_that_cannot_be_stored_until_the_deadline_fails_its_job(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.send(bench.job(deadline=datetime.now(UTC) + timedelta(seconds=8)))
    engine = Counting()
    worker = bench.worker(engine=engine)
    unavailable = response("ServiceUnavailable", 503, "UpdateItem")
    monkeypatch.setattr(worker.runner.endings.committer.documents.table, "update", failing(None, unavailable))
    worker.run()
    row = bench.jobs.get("one")
    assert row is not None and row.result is not None and row.result.error is not None
    assert (row.state, engine.runs) == ("FAILED", 1)
    assert "ServiceUnavailable" in row.result.error.message


def test_an_attempt_whose_end_cannot_be_committed_counts(bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.send(bench.job())
    worker = bench.worker()
    monkeypatch.setattr(bench.jobs, "commit", failing(None, response("AccessDeniedException", 400, "UpdateItem")))
    worker.run()
    row = bench.jobs.get("one")
    assert row is not None and row.last_error is not None
    assert (row.state, row.winner, row.attempts) == ("PLANNED", None, 1)
    assert "AccessDeniedException" in row.last_error.message
    assert bench.waiting() == (0, 1), "its lease lapses by itself"


@pytest.mark.usefixtures("impatient")
def test_a_stopped_execution_or_worker_ends_the_tries_to_store(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "STOP_SECONDS", 0.2)
    for name in ("stopped", "kept"):
        bench.send(bench.job(name))
    worker = bench.worker(idle_seconds=600)
    tries: list[str] = []

    def keep(pk: str, *_: Any) -> None:
        tries.append(pk)
        raise response("ServiceUnavailable", 503, "UpdateItem")

    monkeypatch.setattr(worker.runner.endings.committer.documents.table, "update", keep)

    async def scene() -> None:
        serving = asyncio.create_task(worker.serve())
        await until(lambda: len(set(tries)) == 2)
        bench.stepfunctions.gone.add("token-stopped")
        await until(lambda: bench.waiting() == (0, 1))
        worker.loop.stop()
        await serving

    asyncio.run(asyncio.wait_for(scene(), PATIENCE))
    assert (bench.attempts("stopped"), bench.attempts("kept")) == (0, 0)
    assert bench.waiting() == (1, 0), "the job of the stopped worker is visible again at once"
