"""The steps of a running generation are in its job's row, until its attempt ends."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from botocore.parsers import ResponseParserError

from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import GeneratorOutput
from cosmos_batch.state import JobRow
from cosmos_batch.worker import inference
from tests.support.scripted_generator import ScriptedGenerator
from tests.worker.conftest import WorkerFixture
from tests.worker.test_generations import planned, run

SMALL = {"mode": "t2v", "width": 64, "height": 64, "num_frames": 5}


class Counting(ScriptedGenerator):
    """Does each of three steps once the one before is in the row, and keeps what it has read there."""

    def __init__(self, bench: WorkerFixture) -> None:
        super().__init__()
        self._bench = bench
        self._done = 0
        self.seen: list[tuple[int, int | None]] = []

    def steps(self, job_id: str) -> tuple[int, int] | None:
        return (self._done, 3) if self._done else None

    async def run(self, job: Job, workdir: Path) -> GeneratorOutput:
        for self._done in (1, 2, 3):
            self.seen.append(await self._noted(job))
        return await super().run(job, workdir)

    async def _noted(self, job: Job) -> tuple[int, int | None]:
        while True:
            row = await asyncio.to_thread(self._bench.jobs.get, job.job_id)
            assert row is not None and row.open_attempt is not None
            if row.open_attempt.steps_done == self._done:
                return row.open_attempt.steps_done, row.open_attempt.steps
            await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "STEPS_PERIOD_SECONDS", 0.01)


def row_of(bench: WorkerFixture) -> JobRow:
    row = bench.jobs.get("one")
    assert row is not None
    return row


def test_each_step_is_written_to_the_row(bench: WorkerFixture) -> None:
    engine = Counting(bench)
    planned(bench, SMALL)
    run(bench, engine)
    assert engine.seen == [(1, 3), (2, 3), (3, 3)]
    assert row_of(bench).open_attempt is None and row_of(bench).state == "SUCCEEDED"


def test_steps_are_written_on_after_a_write_that_failed(bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    note_steps = bench.jobs.note_steps
    failed: list[object] = []

    def fail_once(*arguments: Any) -> None:
        if not failed:
            failed.append(arguments)
            raise ResponseParserError("<html>")
        note_steps(*arguments)

    monkeypatch.setattr(bench.jobs, "note_steps", fail_once)
    planned(bench, SMALL)
    run(bench, Counting(bench))
    assert failed and row_of(bench).state == "SUCCEEDED"


def test_steps_of_an_ended_attempt_are_not_written(bench: WorkerFixture) -> None:
    planned(bench, SMALL)
    bench.jobs.note_steps("one", "another", 1, 3)
    assert row_of(bench).open_attempt is None
