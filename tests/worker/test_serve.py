"""The inner process checks its host and its row before it loads the model."""

import asyncio
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.worker import job_limits, serve
from cosmos_batch.worker.leases import LeaseHolder
from cosmos_batch.worker.nvidia_driver import check_driver
from tests.support.scripted_engine import ScriptedEngine
from tests.worker.conftest import WorkerFixture


@pytest.fixture
def gave_up(bench: WorkerFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WorkerFixture:
    """Run a worker on a host without a driver."""
    monkeypatch.setattr(serve, "check_driver", partial(check_driver, version_file=tmp_path / "no-driver"))
    give_up(bench, "worker-1")
    return bench


def give_up(bench: WorkerFixture, name: str) -> None:
    """Run a worker that cannot start."""
    bench.workers.submitted(name, "definition:1")
    environment = bench.environment(name, engine="tests.worker.test_serve:Closing", image_cuda="cu130")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert asyncio.run(serve._serve(environment, LeaseHolder(theirs), time.time())) == serve.FAILED


class Closing(ScriptedEngine):
    """An engine that records that it was closed."""

    closed = 0

    def close(self) -> None:
        Closing.closed += 1


def test_without_a_driver_a_worker_ends_with_the_remedy_in_its_row(gave_up: WorkerFixture) -> None:
    row = gave_up.workers.get("worker-1")
    assert row is not None and row.error is not None
    assert (row.state, row.error.code) == ("ENDED", "EngineFailed")
    assert "no NVIDIA driver" in row.error.message and "app.cosmosBatch.images.cuda" in row.error.remedy
    assert "modelLoaded" not in row.stages


@pytest.mark.usefixtures("gave_up")
def test_a_worker_that_gives_up_closes_its_engine() -> None:
    """The process would wait for an engine's server that is being restarted, and leave it running."""
    assert Closing.closed


def test_workers_that_cannot_start_take_none_of_a_jobs_receipts(
    gave_up: WorkerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them looks whether it may receive, which SQS counts; the job waits in the queue all the same."""
    monkeypatch.setattr(job_limits, "MAX_RECEIPTS", 1)
    gave_up.send(gave_up.job())
    for name in ("worker-2", "worker-3"):
        give_up(gave_up, name)
    gave_up.worker("worker-4").run()
    assert len(gave_up.stepfunctions.calls_of("success")) == 1


def test_gpus_are_allocated_before_the_model_is_loaded(bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise Failure("EngineFailed", "The plan uses 2 GPUs, and this worker has 1.", "Give it 2.")

    monkeypatch.setattr(serve, "allocate_gpus", none)
    bench.workers.submitted("worker-1", "definition:1")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        served = serve._serve(bench.environment("worker-1"), LeaseHolder(theirs), time.time())
        assert asyncio.run(served) == serve.FAILED
    row = bench.workers.get("worker-1")
    assert row is not None and row.error is not None and "has 1" in row.error.message
    assert "modelLoaded" not in row.stages


def test_a_worker_that_must_drain_at_its_start_loads_nothing(bench: WorkerFixture) -> None:
    """Another model was deployed while the worker waited for an instance."""
    bench.workers.submitted("worker-1", "definition:1")
    bench.workers.must_drain("worker-1")
    bench.send(bench.job())
    ours, theirs = socket.socketpair()
    with ours, theirs:
        environment = bench.environment("worker-1", engine="tests.support.scripted_engine:ScriptedEngine")
        assert asyncio.run(serve._serve(environment, LeaseHolder(theirs), time.time())) == 0
    row = bench.workers.get("worker-1")
    assert row is not None and (row.state, row.error) == ("ENDED", None)
    assert "modelLoaded" not in row.stages
    assert bench.waiting() == (1, 0)


def test_heavy_libraries_are_not_imported_before_the_engine_is() -> None:
    code = "import sys, cosmos_batch.worker.serve; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    heavy = {"torch", "transformers", "vllm", "av", "PIL", "numpy", "tokenizers", "huggingface_hub", "jsonschema"}
    assert not heavy & set(loaded)
