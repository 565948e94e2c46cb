"""Disk space for a job's files, on a disk that all jobs and workers of a host share."""

import asyncio
import errno
import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Answer
from cosmos_batch.engines.job_files import input_paths
from cosmos_batch.worker import inputs
from tests.support.scripted_engine import ScriptedEngine
from tests.worker.conftest import WorkerFixture

GIB = 1 << 30


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "DISK_SECONDS", 0.01)


def full() -> OSError:
    return OSError(errno.ENOSPC, "No space left on device")


def test_a_job_waits_for_disk_space(bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [SimpleNamespace(total=GIB, free=free) for free in (9, 9, GIB)]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: answers.pop(0))
    bench.send(bench.job())
    bench.worker().run()
    row = bench.jobs.get("one")
    assert row is not None and (row.state, row.attempts, answers) == ("SUCCEEDED", 1, [])


def test_disk_space_is_reserved_before_the_fetch_or_not_at_all(
    bench: WorkerFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of the planned sizes are allocated, or none at all."""
    job = bench.job()
    first, second = (
        job.inputs[0].model_copy(update={"size": size, "key": f"{size}.mp4"}) for size in (1 << 20, 2 << 20)
    )
    job = job.model_copy(update={"input": first, "more_inputs": [second]})
    asyncio.run(inputs.wait_for_disk(job, tmp_path))
    paths = input_paths(job, tmp_path)
    assert [path.stat().st_blocks * 512 >= path.stat().st_size for path in paths] == [True, True]
    assert [path.stat().st_size for path in paths] == [1 << 20, 2 << 20]

    def none_for_the_second(_: int, __: int, size: int) -> None:
        if size > 1 << 20:
            raise full()

    monkeypatch.setattr(os, "posix_fallocate", none_for_the_second)
    monkeypatch.setattr(inputs, "DISK_TRIES", 1)
    with pytest.raises(OSError, match="No space left"):
        asyncio.run(inputs.wait_for_disk(job, tmp_path))
    assert not any(path.exists() for path in paths)


def test_a_file_smaller_than_planned_is_cut_to_its_size(bench: WorkerFixture, tmp_path: Path) -> None:
    job = bench.job()
    job = job.model_copy(update={"input": job.inputs[0].model_copy(update={"size": 1 << 20})})
    asyncio.run(inputs.wait_for_disk(job, tmp_path))
    inputs.prepare(bench.s3, job, tmp_path)
    assert input_paths(job, tmp_path)[0].read_bytes() == (tmp_path / "picture.png").read_bytes()


def test_a_disk_that_stays_full_is_no_fault_of_the_job(bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=GIB, free=9))
    monkeypatch.setattr(inputs, "DISK_TRIES", 3)
    bench.send(bench.job())
    bench.worker().run()
    assert_left_for_another_try(bench)


def test_a_disk_that_fills_up_during_inference_is_no_fault_of_the_job(bench: WorkerFixture) -> None:
    class Writing(ScriptedEngine):
        async def run(self, job: Job, workdir: Path) -> Answer:
            raise full()

    bench.send(bench.job())
    bench.worker(engine=Writing()).run()
    assert_left_for_another_try(bench)


def test_a_disk_that_fills_up_during_the_fetch_is_no_fault_of_the_job(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(*_: Any) -> None:
        raise full()

    monkeypatch.setattr(inputs, "_fetch", fetch)
    bench.send(bench.job())
    bench.worker().run()
    assert_left_for_another_try(bench)


def assert_left_for_another_try(bench: WorkerFixture) -> None:
    row = bench.jobs.get("one")
    assert row is not None and (row.state, row.attempts, row.suspect) == ("PLANNED", 0, False)
    assert bench.stepfunctions.calls_of("failure") == []
    assert bench.waiting() == (0, 1), "its lease lapses by itself"


def test_files_larger_than_the_whole_disk_are_refused(bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=9, free=9))
    bench.send(bench.job())
    bench.worker().run()
    [call] = bench.stepfunctions.calls_of("failure")
    cause = json.loads(call["cause"])
    assert call["error"] == "InvalidInput" and "GB do not fit on a worker's disk" in cause["message"]
