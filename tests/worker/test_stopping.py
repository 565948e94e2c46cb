"""A worker that stops, drains or leaves loses no job and counts no attempt."""

import asyncio
import json
import threading
import time
from typing import Any

import pytest

from cosmos_batch.contract.job import ITEM_SCHEMA_VERSION
from cosmos_batch.state import Attempt, Waiting, WorkerRow
from cosmos_batch.worker import loop
from tests.worker.conftest import WorkerFixture
from tests.worker.engines import PATIENCE, Counting, until


@pytest.mark.parametrize("experienced", [False, True])
def test_a_stopped_worker_finishes_jobs_that_fit_and_gives_back_the_others(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch, experienced: bool
) -> None:
    monkeypatch.setattr(loop, "STOP_SECONDS", 5)
    if experienced:
        bench.send(bench.job("quick", prompt=json.dumps({"seconds": 0.1})))
    engine = Counting()
    worker = bench.worker(engine=engine, idle_seconds=600)

    async def scene() -> None:
        serving = asyncio.create_task(worker.serve())
        await until(lambda: len(bench.stepfunctions.calls_of("success")) == int(experienced))
        bench.send(bench.job(prompt=json.dumps({"seconds": 1 if experienced else PATIENCE})))
        await until(lambda: engine.inside == 1)
        worker.loop.stop()
        await serving

    asyncio.run(asyncio.wait_for(scene(), PATIENCE))
    row = bench.jobs.get("one")
    assert row is not None
    if experienced:
        assert row.state == "SUCCEEDED"
    else:
        assert (row.state, row.attempts, row.open_attempt, row.give_backs) == ("PLANNED", 0, None, 1)
        assert bench.waiting() == (1, 0), "visible again at once"


def test_messages_received_while_it_stops_are_given_back(bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = bench.worker(idle_seconds=600)
    receive = worker.runner.queue.receive

    async def scene() -> None:
        in_loop = asyncio.get_running_loop().call_soon_threadsafe

        def receive_while_it_stops(*arguments: int) -> Any:
            in_loop(worker.loop.stop)
            bench.send(bench.job())
            return receive(*arguments)

        monkeypatch.setattr(worker.runner.queue, "receive", receive_while_it_stops)
        await worker.serve()

    asyncio.run(asyncio.wait_for(scene(), PATIENCE))
    row = bench.jobs.get("one")
    assert row is not None
    assert (row.state, row.attempts, row.give_backs) == ("PLANNED", 0, 1)
    assert bench.waiting() == (1, 0)


def test_a_draining_worker_that_is_stopped_gives_jobs_back(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "STOP_SECONDS", 1)
    bench.send(bench.job(prompt=json.dumps({"seconds": 600})))
    engine = Counting()
    worker = bench.worker(engine=engine, idle_seconds=600)

    async def scene() -> None:
        serving = asyncio.create_task(worker.serve())
        await until(lambda: engine.inside == 1)
        worker.loop._draining = True
        worker.loop._wake.set()
        await asyncio.sleep(1.5)
        assert not serving.done()
        worker.loop.stop()
        await serving

    asyncio.run(asyncio.wait_for(scene(), PATIENCE))
    row = bench.jobs.get("one")
    assert row is not None
    assert (row.state, row.attempts) == ("PLANNED", 0)


def test_an_attempt_that_is_opened_while_the_worker_stops_does_not_count(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.send(bench.job())
    worker = bench.worker(idle_seconds=600)
    opening = threading.Event()
    open_attempt = bench.jobs.open_attempt

    def slowly(job_id: str, attempt: Attempt) -> Any:
        opening.set()
        time.sleep(2.5)  # longer than the receive that is awaited first
        return open_attempt(job_id, attempt)

    monkeypatch.setattr(bench.jobs, "open_attempt", slowly)

    async def scene() -> None:
        serving = asyncio.create_task(worker.serve())
        await until(opening.is_set)
        worker.loop.stop()
        await serving

    asyncio.run(asyncio.wait_for(scene(), PATIENCE))
    row = bench.jobs.get("one")
    assert row is not None
    assert (row.state, row.attempts, row.open_attempt) == ("PLANNED", 0, None)


def test_a_job_that_has_not_started_when_the_worker_stops_is_given_back(bench: WorkerFixture) -> None:
    """The job's asyncio task has not run yet, and must give its message back all the same."""
    worker = bench.worker(idle_seconds=600)
    begin = worker.loop._accept

    async def begin_and_stop(message: dict[str, str]) -> None:
        await begin(message)
        worker.loop.stop()

    worker.loop._accept = begin_and_stop  # type: ignore[method-assign]
    bench.send(bench.job())
    worker.run()
    row = bench.jobs.get("one")
    assert row is not None
    assert (row.state, row.attempts, row.give_backs) == ("PLANNED", 0, 1)
    assert bench.waiting() == (1, 0)


def test_a_job_of_newer_code_is_given_back_and_the_worker_drains(bench: WorkerFixture) -> None:
    bench.sqs.send_message(
        QueueUrl=bench.queue_url,
        MessageBody=json.dumps({"schemaVersion": ITEM_SCHEMA_VERSION + 1, "taskToken": "t", "job": {}}),
    )
    bench.worker(idle_seconds=600).run()
    assert sum(bench.waiting()) == 1, "at once, or after the other old workers have been told to leave"
    row = bench.workers.get("worker-1")
    assert row is not None and row.state == "DRAINING", "scale no longer counts on it"


def test_a_worker_that_must_drain_finishes_its_jobs_and_leaves(bench: WorkerFixture) -> None:
    bench.send(bench.job(prompt=json.dumps({"seconds": 2})))
    worker = bench.worker(idle_seconds=600)

    async def asked_at_work() -> None:
        serving = asyncio.create_task(worker.serve())
        while not bench.attempts("one"):
            await asyncio.sleep(0.05)
        bench.workers.must_drain("worker-1")
        await serving

    asyncio.run(asyncio.wait_for(asked_at_work(), PATIENCE))
    assert len(bench.stepfunctions.calls_of("success")) == 1
    row = bench.workers.get("worker-1")
    assert row is not None
    assert row.state == "DRAINING"


def test_a_worker_says_that_it_drains_once_its_row_can_be_written_again(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.send(bench.job(prompt=json.dumps({"seconds": 600})))
    worker = bench.worker(idle_seconds=600)
    written, tries = type(bench.workers).draining, []

    def draining(*arguments: Any) -> WorkerRow:
        tries.append(arguments)
        if len(tries) == 1:
            raise ConnectionError("the table does not answer")
        return written(*arguments)

    monkeypatch.setattr(type(bench.workers), "draining", draining)

    async def asked_at_work() -> None:
        serving = asyncio.create_task(worker.serve())
        await until(lambda: bool(bench.attempts("one")))
        bench.workers.must_drain("worker-1")
        await until(lambda: bench.workers.get("worker-1").state == "DRAINING")
        worker.loop.stop()
        await serving

    asyncio.run(asyncio.wait_for(asked_at_work(), PATIENCE))
    assert len(tries) == 2


def test_a_warm_worker_stays_without_work(bench: WorkerFixture) -> None:
    worker = bench.worker(idle_seconds=1)
    bench.workers.keep("worker-1", True)

    async def while_it_serves() -> None:
        serving = asyncio.create_task(worker.serve())
        await asyncio.sleep(4)
        assert not serving.done() and bench.workers.get("worker-1").state == "READY"
        bench.workers.keep("worker-1", False)
        await asyncio.wait_for(serving, PATIENCE)

    asyncio.run(while_it_serves())
    assert bench.workers.get("worker-1").state == "DRAINING"


def test_a_worker_that_becomes_warm_while_it_leaves_stays(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = bench.worker(idle_seconds=0)
    draining, left = bench.workers.draining, []

    def asked_meanwhile(name: str, waiting: Waiting | None) -> WorkerRow:
        left.append(name)
        bench.workers.keep(name, len(left) == 1)
        row = draining(name, waiting)
        bench.workers.keep(name, False)  # it may leave the next time
        return row

    monkeypatch.setattr(bench.workers, "draining", asked_meanwhile)
    worker.run()
    assert len(left) == 2


def test_a_worker_polls_once_more_after_it_has_announced_to_leave(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = bench.worker()
    draining = bench.workers.draining

    def say_and_send(name: str, waiting: Waiting | None) -> WorkerRow:
        row = draining(name, waiting)
        if not bench.stepfunctions.calls:
            bench.send(bench.job())
        return row

    monkeypatch.setattr(bench.workers, "draining", say_and_send)
    worker.run()
    assert len(bench.stepfunctions.calls_of("success")) == 1
