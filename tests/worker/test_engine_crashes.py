"""A job that crashes the vLLM server, from the queue to the error that its caller gets."""

import json
from pathlib import Path

import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.settings import WorkerSettings
from cosmos_batch.demo.checkpoint import build_random_checkpoint
from cosmos_batch.engines.reasoner.vllm.engine import VllmEngine
from tests.engines.conftest import stand_in
from tests.worker.conftest import InProcessWorker, WorkerFixture


@pytest.fixture
def worker(bench: WorkerFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InProcessWorker:
    """Provide a worker with the default limits on crashes."""
    (tmp_path / "told").touch()
    stand_in(monkeypatch, tmp_path / "told")
    model = build_random_checkpoint(tmp_path / "models")
    environment = bench.environment("worker-1").model_copy(update={"model": str(model)})
    return InProcessWorker(bench, environment, VllmEngine(), None)


def test_a_job_that_takes_too_much_memory_fails_with_its_remedy_and_the_worker_goes_on(
    bench: WorkerFixture, worker: InProcessWorker
) -> None:
    """The job is alone in the queue, so every crash counts against it."""
    bench.send(bench.job(prompt="oom"))
    worker.run()
    [call] = bench.stepfunctions.calls_of("failure")
    cause = json.loads(call["cause"])
    assert "3 times" in cause["message"] and "ran out of GPU memory" in cause["message"]
    assert "more GPU memory" in cause["remedy"] and "lower fps" in cause["remedy"]
    row = bench.jobs.get("one")
    assert row is not None and row.result is not None and row.result.error is not None
    assert row.result.error.remedy == cause["remedy"]
    assert bench.waiting() == (0, 0)


def test_a_second_worker_continues_to_count_a_jobs_attempts(bench: WorkerFixture, worker: InProcessWorker) -> None:
    """The second worker counts on from the attempts that the first one has recorded."""
    settings = WorkerSettings(idle_seconds=1, max_attempts=6)
    changes = {"model": worker.runner.environment.model, "worker": settings}
    bench.send(bench.job(prompt="die"))
    first = InProcessWorker(bench, bench.environment("worker-2").model_copy(update=changes), VllmEngine(), None)
    with pytest.raises(Failure, match="was killed by SIGKILL"):
        first.run()
    row = bench.jobs.get("one")
    assert row is not None and 3 < row.attempts < 6 and not bench.stepfunctions.calls_of("failure")
    InProcessWorker(bench, bench.environment("worker-3").model_copy(update=changes), VllmEngine(), None).run()
    [call] = bench.stepfunctions.calls_of("failure")
    assert "6 times" in json.loads(call["cause"])["message"]
