"""Jobs of a remote model server while it is away, busy, slow or broken, and when it is back (decision 053).

The HTTP server and the worker are real; the queue and the table are moto's.
"""

import asyncio
import json
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cosmos_batch.cli.job_snapshot import waits_for_server
from cosmos_batch.contract.endpoint import Endpoint
from cosmos_batch.contract.settings import MAX_RECEIPTS
from cosmos_batch.engines.errors import ServerUnavailable
from cosmos_batch.engines.generator.upsampling import Upsampler
from cosmos_batch.engines.reasoner.endpoint import EndpointEngine
from cosmos_batch.engines.serving import outages as waits
from cosmos_batch.state import JobRow, Waiting
from cosmos_batch.worker import server_outages
from cosmos_batch.worker.job_limits import refusal
from cosmos_batch.worker.queue import Delivery
from cosmos_batch.worker.server_outages import FORGIVEN_INTERRUPTIONS, pause_seconds
from tests.engines.reasoner.endpoint.conftest import Server, error
from tests.support.generations import settled
from tests.support.jobs import make_job
from tests.support.scripted_engine import ScriptedEngine
from tests.worker.conftest import InProcessWorker, WorkerFixture
from tests.worker.engines import PATIENCE, until

NAMES = [f"job-{number}" for number in range(6)]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the waits. SQS has only whole seconds."""
    monkeypatch.setattr(waits, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(waits, "LONGEST_WAIT", 0.02)
    monkeypatch.setattr(server_outages, "FIRST_PAUSE", 1.0)
    monkeypatch.setattr(server_outages, "LONGEST_PAUSE", 1.0)
    monkeypatch.setattr(server_outages, "FIRST_PROBE", 0.05)
    monkeypatch.setattr(server_outages, "LONGEST_PROBE", 0.2)


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """Return a function that starts a server, at a given port if there is one."""
    servers = []

    def serve(port: int = 0) -> Server:
        server = Server(port)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        servers.append(server)
        return server

    yield serve
    for server in servers:
        stop(server)


def stop(server: Server) -> None:
    server.shutdown()
    server.server_close()


def worker_at(bench: WorkerFixture, server: Server, idle_seconds: int = 600, **settings: Any) -> InProcessWorker:
    """Return a worker for the server that does not leave without work."""
    endpoint = Endpoint(url=server.url, concurrency=len(NAMES), timeout_seconds=settings.pop("timeout_seconds", 60))
    environment = bench.environment("worker-1", idle_seconds=idle_seconds, **settings)
    environment = environment.model_copy(update={"endpoint": endpoint})
    return InProcessWorker(bench, environment, EndpointEngine(endpoint, lambda: None), None)


def rows(bench: WorkerFixture, names: list[str] = NAMES) -> list[JobRow]:
    found = [bench.jobs.get(name) for name in names]
    return [row for row in found if row is not None]


def work(worker: InProcessWorker, story: Callable[[], Awaitable[None]]) -> None:
    """Run a scenario while the worker serves, and stop the worker after it."""

    async def both() -> None:
        await worker.model.load()
        serving = asyncio.create_task(worker.loop.serve())
        try:
            await story()
        finally:
            worker.loop.stop()
            await serving
            worker.model.engine.close()

    asyncio.run(both())


async def all_answered(bench: WorkerFixture, names: list[str] = NAMES) -> None:
    await until(lambda: all(row.state == "SUCCEEDED" for row in rows(bench, names)))


def assert_blameless(bench: WorkerFixture, names: list[str] = NAMES) -> None:
    """Assert that only the attempt that answered each job has counted."""
    assert {(row.attempts, row.suspect, row.state) for row in rows(bench, names)} == {(1, False, "SUCCEEDED")}


def test_jobs_wait_for_a_server_and_run_together_when_it_is_back(
    bench: WorkerFixture, serve: Callable[..., Server]
) -> None:
    server = serve()
    worker = worker_at(bench, server)

    async def story() -> None:
        stop(server)
        for name in NAMES:
            bench.send(bench.job(name))
        await until(lambda: any(row.waiting for row in rows(bench)))
        row = next(row for row in rows(bench) if row.waiting)
        assert (row.attempts, row.suspect, row.state) == (0, False, "PLANNED")
        reason = waits_for_server(row) or ""
        assert server.url in reason and "does not answer" in reason and "It is asked again at" in reason
        await until(lambda: all(row.waiting for row in rows(bench)))
        back = serve(server.server_address[1])
        back.together = threading.Barrier(len(NAMES))
        await all_answered(bench)
        assert len(back.requests) == len(NAMES)
        await until(lambda: (row := bench.workers.get("worker-1")) is not None and row.server_answers)

    work(worker, story)
    assert_blameless(bench)
    assert all(row.waiting is None for row in rows(bench))


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param((*error(429), {"Retry-After": "1"}), id="429"),
        *(pytest.param(error(status), id=str(status)) for status in (503, 504, 521)),  # busy, broken, away
        *(pytest.param(error(status), id=str(status), marks=pytest.mark.slow) for status in (408, 502, 520, 524, 530)),
        pytest.param("hang up", id="breaks off"),
        pytest.param("sleep", id="slow"),
    ],
)
def test_an_outage_neither_counts_an_attempt_nor_makes_a_suspect(
    bench: WorkerFixture, serve: Callable[..., Server], fault: Any
) -> None:
    server = serve()
    server.fault = fault
    names = NAMES[:3]
    for name in names:
        bench.send(bench.job(name))

    async def story() -> None:
        await until(lambda: all(row.pauses >= 2 for row in rows(bench, names)))
        server.together = threading.Barrier(len(names))
        server.fault = None
        await all_answered(bench, names)

    # Slow is one that is asked for longer than it may take; what is answered after all must not meet that limit.
    worker = worker_at(bench, server, timeout_seconds=3 if fault == "sleep" else 60)
    work(worker, story)
    assert_blameless(bench, names)


def test_a_job_that_interrupts_the_server_each_time_fails_in_the_end(
    bench: WorkerFixture, serve: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve()
    server.fault = lambda asked: "hang up" if "poison" in json.dumps(asked) else None
    bench.send(bench.job("poison", prompt="poison"))

    async def story() -> None:
        await until(lambda: bench.stepfunctions.calls_of("failure"))
        bench.send(bench.job("sound"))
        await all_answered(bench, ["sound"])

    work(worker_at(bench, server, max_attempts=2), story)
    [call] = bench.stepfunctions.calls_of("failure")
    assert call["error"] == "EngineFailed" and "does not answer" in json.loads(call["cause"])["message"]
    [poison] = rows(bench, ["poison"])
    assert (poison.interruptions, poison.attempts, poison.state) == (FORGIVEN_INTERRUPTIONS, 2, "FAILED")
    assert_blameless(bench, ["sound"])


@pytest.mark.parametrize("status", [401, 404])
def test_a_permanent_error_of_the_server_fails_the_job_at_once(
    bench: WorkerFixture, serve: Callable[..., Server], status: int
) -> None:
    server = serve()
    server.fault = error(status, "model `x` does not exist")
    bench.send(bench.job("one"))

    async def story() -> None:
        await until(lambda: bench.stepfunctions.calls_of("failure"))

    work(worker_at(bench, server), story)
    [call] = bench.stepfunctions.calls_of("failure")
    assert call["error"] == "ModelUnavailable" and "model `x` does not exist" in json.loads(call["cause"])["message"]
    assert len(server.requests) == 1


def test_a_job_that_waits_until_its_deadline_fails_with_the_reason(
    bench: WorkerFixture, serve: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_outages, "FIRST_PAUSE", 7200.0)  # an hour is left, so there is no time for another try
    server = serve()
    server.fault = error(503, "no room")
    bench.send(bench.job("one"))

    async def story() -> None:
        await until(lambda: bench.stepfunctions.calls_of("failure"))

    work(worker_at(bench, server), story)
    [call] = bench.stepfunctions.calls_of("failure")
    cause = json.loads(call["cause"])
    assert call["error"] == "TimedOut" and "waited for a server" in cause["message"] and "no room" in cause["message"]


def test_a_worker_leaves_when_its_server_is_away_for_the_idle_time(
    bench: WorkerFixture, serve: Callable[..., Server]
) -> None:
    """An idle GPU costs money, and the next worker finds the job in the queue."""
    server = serve()
    worker = worker_at(bench, server, idle_seconds=2)

    async def serve_until_it_leaves() -> None:
        await worker.model.load()
        stop(server)
        bench.send(bench.job("one"))
        await asyncio.wait_for(worker.loop.serve(), PATIENCE)
        worker.model.engine.close()

    asyncio.run(serve_until_it_leaves())
    assert sum(bench.waiting()) == 1
    [row] = rows(bench, ["one"])
    assert (row.attempts, row.suspect, row.state) == (0, False, "PLANNED") and row.waiting


def test_a_worker_leaves_while_its_jobs_go_on_waiting_for_the_upsampler(bench: WorkerFixture) -> None:
    """A job that is received and paused again and again is no work. The row says when the jobs are tried again."""
    generation = settled({"upsample_prompt": True, "mode": "t2v"}, None, "A robot pours water.")
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    names = NAMES[:3]
    for name in names:
        bench.send(bench.job(name, generation=generation))
    worker = bench.worker(idle_seconds=2)
    worker.runner.upsampler = Upsampler(Endpoint(url=f"http://127.0.0.1:{port}/v1"), lambda: None)
    worker.run()
    assert sum(bench.waiting()) == len(names)
    paused = rows(bench, names)
    assert {(row.attempts, row.suspect, row.state) for row in paused} == {(0, False, "PLANNED")}
    left = bench.workers.get("worker-1")
    assert left is not None and (left.state, left.error) == ("DRAINING", None)
    assert left.waiting == max((row.waiting for row in paused if row.waiting), key=lambda waiting: waiting.until)


def test_an_answered_job_that_needed_a_server_ends_the_pauses_that_a_worker_tells_of() -> None:
    plain = make_job("plain")
    generation = settled({"upsample_prompt": True, "mode": "t2v"}, None, "A robot pours water.")
    outage = server_outages.Outage(ScriptedEngine())
    for moment in ("2026-01-01T00:10:00+00:00", "2026-01-01T00:15:00+00:00", "2026-01-01T00:12:00+00:00"):
        outage.paused(Waiting(reason="It is away.", until=moment))
    last = Waiting(reason="It is away.", until="2026-01-01T00:15:00+00:00")
    assert outage.waiting == last
    outage.answered(plain)
    assert outage.waiting == last, "no server was needed for it"
    outage.answered(plain.model_copy(update={"generation": generation}))
    assert outage.waiting is None


def test_a_worker_tells_whether_a_server_that_its_jobs_need_answers() -> None:
    generation = settled({"upsample_prompt": True, "mode": "t2v"}, None, "A robot pours water.")
    outage = server_outages.Outage(ScriptedEngine())
    outage.answered(make_job("plain"))
    assert not outage.server_answers, "no server was needed for it"
    outage.answered(make_job("upsampled").model_copy(update={"generation": generation}))
    assert outage.server_answers
    outage.begin(unavailable())
    assert not outage.server_answers


def test_a_worker_takes_no_jobs_while_its_server_is_away(bench: WorkerFixture, serve: Callable[..., Server]) -> None:
    server = serve()
    worker = worker_at(bench, server)
    looks: list[bool] = []

    async def story() -> None:
        stop(server)
        bench.send(bench.job("first"))
        await until(lambda: any(row.waiting for row in rows(bench, ["first"])))
        look = worker.runner.endings.outage.probe

        async def counted() -> None:
            await look()
            looks.append(worker.runner.endings.outage.is_on)

        worker.runner.endings.outage.probe = counted  # type: ignore[method-assign]
        await until(lambda: looks)  # the receive that was under way has ended
        bench.send(bench.job("second"))
        await until(lambda: len(looks) > 5)
        [second] = rows(bench, ["second"])
        assert all(looks) and (second.pauses, second.stages.get("started")) == (0, None)
        serve(server.server_address[1])
        await all_answered(bench, ["first", "second"])

    work(worker, story)


def unavailable(retry_after: float | None = None) -> ServerUnavailable:
    return ServerUnavailable("busy", "It is busy.", "Wait.", retry_after)


def test_pauses_double_follow_retry_after_and_end_before_the_deadline(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_outages, "FIRST_PAUSE", 10.0)
    monkeypatch.setattr(server_outages, "LONGEST_PAUSE", 900.0)
    later = bench.job("later", deadline=datetime.now(UTC) + timedelta(days=3))
    for pauses, longest in ((0, 10), (3, 80), (9, 900), (5000, 900)):
        pause = pause_seconds(later, pauses, unavailable())
        assert pause is not None and 0.75 * longest <= pause <= longest
    assert pause_seconds(later, 0, unavailable(300)) == 300
    assert pause_seconds(later, 0, unavailable(86_400)) == server_outages.LONGEST_RETRY_AFTER
    soon = bench.job("soon", deadline=datetime.now(UTC) + timedelta(seconds=70))
    pause = pause_seconds(soon, 9, unavailable())
    assert pause is not None and 30 < pause <= 60, "there is time for one more try"
    assert pause_seconds(bench.job("now", deadline=datetime.now(UTC)), 0, unavailable()) is None


@pytest.mark.parametrize("count", ["pauses", "give_backs"])
def test_pauses_and_give_backs_do_not_count_as_receipts(bench: WorkerFixture, count: str) -> None:
    job = bench.job("one")
    [row] = rows(bench, ["one"])
    environment = bench.environment("worker-1")

    def verdict(receipts: int, explained: int) -> Any:
        delivery = Delivery("handle", "token", job, datetime.now(UTC), receipts)
        return refusal(delivery, row.model_copy(update={count: explained}), environment)

    assert verdict(MAX_RECEIPTS, 0) is None and verdict(900, 900 - MAX_RECEIPTS) is None
    error = verdict(MAX_RECEIPTS + 1, 0)
    assert error is not None and (error.code, error.retryable) == ("Internal", True)


def test_a_worker_counts_the_receipts_of_a_message(bench: WorkerFixture) -> None:
    bench.send(bench.job("one"))
    for _ in range(MAX_RECEIPTS):
        [message] = bench.sqs.receive_message(QueueUrl=bench.queue_url)["Messages"]
        bench.sqs.change_message_visibility(
            QueueUrl=bench.queue_url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
        )
    bench.worker().run()
    [call] = bench.stepfunctions.calls_of("failure")
    assert call["error"] == "Internal" and f"{MAX_RECEIPTS + 1} times" in json.loads(call["cause"])["message"]
