"""Only a job's own failures count against it, suspects run alone, and one of two attempts wins (decision 005)."""

import asyncio
import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch import media
from cosmos_batch.contract.error import Error, Failure
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Answer
from cosmos_batch.engines.errors import EngineDied
from cosmos_batch.state import Attempt
from tests.support.scripted_engine import ScriptedEngine
from tests.worker.conftest import ASSETS, WorkerFixture
from tests.worker.engines import PATIENCE, Counting, until


def test_a_job_fails_after_its_last_attempt(bench: WorkerFixture) -> None:
    bench.send(bench.job(prompt=json.dumps({"raise": "CUDA error 700"})))
    bench.worker(max_attempts=2).run()
    [call] = bench.stepfunctions.calls_of("failure")
    assert call["error"] == "EngineFailed"
    assert "CUDA error 700" in json.loads(call["cause"])["message"]
    row = bench.jobs.get("one")
    assert row is not None
    assert (row.attempts, row.suspect, row.state) == (2, True, "FAILED")


def test_an_attempt_is_open_while_media_is_probed(bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.send(bench.job())
    seen: list[Any] = []

    def look(path: Path) -> None:
        seen.append(bench.jobs.get("one"))
        raise Failure("InvalidInput", "broken", "mend it")

    monkeypatch.setattr(media, "probe", look)
    bench.worker().run()
    assert seen[0].open_attempt is not None


def lost_attempt(bench: WorkerFixture, name: str, solo: bool) -> None:
    """Open an attempt of a worker that was killed."""
    bench.jobs.open_attempt(name, Attempt(id=uuid.uuid4().hex, worker="dead", solo=solo))


def test_an_attempt_that_was_lost_with_others_does_not_count_and_makes_a_suspect(bench: WorkerFixture) -> None:
    bench.send(bench.job())
    lost_attempt(bench, "one", solo=False)
    bench.worker().run()
    row = bench.jobs.get("one")
    assert row is not None
    assert (row.state, row.attempts, row.suspect) == ("SUCCEEDED", 1, True)


def test_a_job_whose_lone_attempts_were_all_lost_fails(bench: WorkerFixture) -> None:
    bench.send(bench.job())
    for _ in range(3):
        lost_attempt(bench, "one", solo=True)
    engine = Counting()
    bench.worker(engine=engine).run()
    [call] = bench.stepfunctions.calls_of("failure")
    assert call["error"] == "EngineFailed"
    cause = json.loads(call["cause"])
    assert "3 times" in cause["message"] and "another encoding" in cause["remedy"], "nobody knows what it died of"
    assert engine.most == 0


def test_suspects_run_alone(bench: WorkerFixture) -> None:
    for n in range(6):
        bench.send(bench.job(f"job-{n}", prompt=json.dumps({"seconds": 0.1})))
        lost_attempt(bench, f"job-{n}", solo=False)
    engine = Counting()
    bench.worker(engine=engine).run()
    assert engine.most == 1
    assert len(bench.stepfunctions.calls_of("success")) == 6


class Meeting(ScriptedEngine):
    """Answers with its own name once `expected` jobs are in engines of this class."""

    concurrency = 1
    inside = 0
    expected = 2

    def __init__(self, name: str) -> None:
        super().__init__()
        self._own = name

    async def run(self, job: Job, workdir: Path) -> Answer:
        Meeting.inside += 1
        await until(lambda: Meeting.inside >= Meeting.expected)
        answer = await super().run(job, workdir)
        return answer.model_copy(update={"text": self._own})


def test_two_workers_with_the_same_job_write_one_result(bench: WorkerFixture) -> None:
    """SQS may deliver a message twice. Here both workers finish at the same time, with different answers."""
    Meeting.inside = 0
    job = bench.job()
    bench.send(job)
    bench.send(job)
    workers = [bench.worker(name, engine=Meeting(name)) for name in ("first", "second")]

    async def both() -> None:
        await asyncio.gather(*(worker.serve() for worker in workers))

    asyncio.run(asyncio.wait_for(both(), PATIENCE))
    assert Meeting.inside == 2, "both ran"
    row = bench.jobs.get("one")
    assert row is not None
    assert row.state == "SUCCEEDED"
    assert row.winner is not None
    winners = json.loads(bench.staged.read("one", row.winner))
    versions = bench.s3.list_object_versions(Bucket=ASSETS, Prefix="out/")["Versions"]
    assert len({version["ETag"] for version in versions}) == 1, "only the winner's document was ever written"
    assert json.loads(bench.document("one"))["result"] == winners["result"]
    outputs = {call["output"] for call in bench.stepfunctions.calls_of("success")}
    assert len(outputs) == 1, "whoever tells, tells of the winner"


class Mortal(Counting):
    """Raises EngineDied for all jobs in it when a prompt says so, and serves the next jobs again."""

    def __init__(self, for_good: bool = False) -> None:
        super().__init__()
        self._for_good = for_good
        self._end: asyncio.Event | None = None

    async def run(self, job: Job, workdir: Path) -> Answer:
        self._end = self._end or asyncio.Event()
        end = self._end
        script = json.loads(job.prompt or "{}")
        if script.get("kills") and not (self.inside == 0 and script["kills"] == "with several jobs"):
            end.set()
            self._end = None
        answering = asyncio.create_task(super().run(job, workdir))
        ending = asyncio.create_task(end.wait())
        await asyncio.wait({answering, ending}, return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        if end.is_set():
            answering.cancel()
            raise EngineDied(DEATH, self._for_good)
        return answering.result()


DEATH = Error(code="EngineFailed", message="The engine was killed by SIGSEGV.", remedy="Take less.", retryable=True)


def test_an_engine_crash_with_several_jobs_counts_for_none_and_each_runs_alone_next(bench: WorkerFixture) -> None:
    for n in range(4):
        bench.send(bench.job(f"neighbour-{n}", prompt=json.dumps({"seconds": 1, "text": f"mine {n}"})))
    bench.send(bench.job("killer", prompt=json.dumps({"kills": "with several jobs", "seconds": 0.1, "text": "calm"})))
    engine = Mortal()
    bench.worker(engine=engine).run()
    assert engine.most > 1, "they were in it together"
    for name in ("killer", *(f"neighbour-{n}" for n in range(4))):
        row = bench.jobs.get(name)
        assert row is not None
        assert (row.state, row.attempts) == ("SUCCEEDED", 1)
    assert {json.loads(bench.document(f"neighbour-{n}"))["result"] for n in range(4)} == {f"mine {n}" for n in range(4)}
    assert len(bench.stepfunctions.calls_of("success")) == 5


def test_a_job_that_crashes_the_engine_alone_fails_with_the_engines_error(bench: WorkerFixture) -> None:
    bench.send(bench.job("killer", prompt=json.dumps({"kills": "always"})))
    bench.worker(engine=Mortal(), max_attempts=2).run()
    [call] = bench.stepfunctions.calls_of("failure")
    cause = json.loads(call["cause"])
    assert call["error"] == "EngineFailed"
    assert "2 times" in cause["message"] and "SIGSEGV" in cause["message"]
    assert cause["remedy"].startswith("Take less. The log of Batch job ")


def test_an_engine_that_cannot_restart_ends_the_worker_and_the_job_waits(bench: WorkerFixture) -> None:
    bench.send(bench.job("killer", prompt=json.dumps({"kills": "always"})))
    with pytest.raises(Failure, match="SIGSEGV"):
        bench.worker(engine=Mortal(for_good=True)).run()
    row = bench.jobs.get("killer")
    assert row is not None
    assert (row.open_attempt, row.suspect) == (None, True)
    assert bench.waiting() == (1, 0)
