"""The vLLM engine when GPU memory runs out, with a stand-in that prints vLLM's messages."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from cosmos_batch.catalogue.generation import LossyMode
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.result import Answer
from cosmos_batch.engines.errors import EngineDied
from cosmos_batch.engines.reasoner import preparation_pool
from cosmos_batch.engines.reasoner.preparation_pool import PreparationProcess
from cosmos_batch.engines.reasoner.vllm import command as vllm_command
from cosmos_batch.engines.reasoner.vllm.engine import VllmEngine
from cosmos_batch.engines.serving import served_model
from cosmos_batch.media import gpu_decoding
from tests.engines.conftest import load

Run = Callable[..., list[Answer | BaseException]]


def test_a_server_that_ran_out_of_memory_restarts_with_a_smaller_plan(run_all: Run, dying: VllmEngine) -> None:
    before = dying._served.plan.sequences
    (died,) = run_all("oom")
    assert isinstance(died, EngineDied)
    assert "ran out of GPU memory" in died.error.message and "instance type" in died.error.remedy
    run_all("fine")
    assert dying._served.plan.sequences == before // 4


def test_a_start_that_does_not_fit_is_repeated_with_a_smaller_plan(server_options: Path, checkpoint_dir: Path) -> None:
    server_options.write_text("--most 3")
    engine = VllmEngine()
    engine.load(checkpoint_dir)
    assert engine._served.plan.sequences == 2
    engine.close()


def test_a_worker_with_fp8_starts_its_server_with_it_and_keeps_its_compiled_code_apart(
    server_options: Path, checkpoint_dir: Path, driver: Path
) -> None:
    server_options.write_text("")
    engine = VllmEngine()
    as_it_is = engine.compiled_for()
    engine.lossy = ["fp8"]
    assert engine.compiled_for() == {**as_it_is, "lossy": "fp8"}
    driver.write_text("9.0\n")
    engine.load(checkpoint_dir)
    assert engine._served.plan.fp8 and not engine._served.plan.fp8_cache
    engine.close()
    engine.lossy = ["fp8Cache"]
    assert engine.compiled_for() == {**as_it_is, "lossy": "fp8Cache"}
    engine.load(checkpoint_dir)
    assert engine._served.plan.fp8_cache and not engine._served.plan.fp8
    engine.close()
    engine.lossy = ()
    engine.load(checkpoint_dir)
    assert not engine._served.plan.fp8 and not engine._served.plan.fp8_cache
    engine.close()


def test_what_decodes_the_videos_changes_no_compiled_code() -> None:
    engine = VllmEngine()
    as_it_is = engine.compiled_for()
    engine.lossy = ["gpuDecode"]
    assert engine.compiled_for() == as_it_is


@pytest.mark.parametrize(("lossy", "threads"), [((), 1), (("gpuDecode",), 6)])
def test_threads_that_wait_for_the_gpus_decoder_are_as_many_with_few_cores(
    server_options: Path, checkpoint_dir: Path, monkeypatch: pytest.MonkeyPatch, lossy: list[LossyMode], threads: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(gpu_decoding, "device_of_this_process", object)
    engine = VllmEngine()
    engine.lossy = lossy
    engine.load(checkpoint_dir)
    assert engine._media_threads._small._max_workers == threads
    engine.close()


@pytest.mark.parametrize(("lossy", "processes"), [((), 2), (("gpuDecode",), 0)])
def test_requests_are_prepared_in_processes_until_the_engine_is_closed(
    server_options: Path,
    checkpoint_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    lossy: list[LossyMode],
    processes: int,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    monkeypatch.setattr(gpu_decoding, "device_of_this_process", object)
    engine = VllmEngine()
    engine.lossy = lossy
    engine.load(checkpoint_dir)
    started = list(engine._preparation._idle)
    assert len(started) == processes and all(process.is_running for process in started)
    for process in started:
        command = Path(f"/proc/{process._process.pid}/cmdline").read_bytes().split(b"\0")
        assert command[-3:-1] == [str(checkpoint_dir).encode(), str(engine._served.plan.context).encode()]
    engine.close()
    assert not any(process.is_running for process in started)


def test_a_model_that_does_not_start_leaves_no_processes(
    server_options: Path, checkpoint_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server_options.write_text("--most -1")
    started: list[PreparationProcess] = []
    process = preparation_pool.PreparationProcess

    def start(command: list[str]) -> PreparationProcess:
        started.append(process(command))
        return started[-1]

    monkeypatch.setattr(preparation_pool, "PreparationProcess", start)
    with pytest.raises(Failure):
        VllmEngine().load(checkpoint_dir)
    assert started and not any(process.is_running for process in started)


@pytest.mark.parametrize(("fit", "starts"), [(0, 3), (-1, 1)])
def test_a_model_that_never_fits_is_an_error_with_a_remedy(
    server_options: Path, checkpoint_dir: Path, tmp_path: Path, fit: int, starts: int
) -> None:
    """Each attempt is a complete start, so there are few. Weights that do not fit are not tried again."""
    server_options.write_text(f"--most {fit} --starts {tmp_path / 'starts'}")
    with pytest.raises(Failure) as raised:
        VllmEngine().load(checkpoint_dir)
    assert "does not fit into the GPU's memory" in raised.value.error.message
    assert "more GPU memory" in raised.value.error.remedy
    assert (raised.value.error.code, raised.value.error.retryable) == ("ModelUnavailable", False)
    assert len((tmp_path / "starts").read_text()) == starts


def test_a_context_that_does_not_fit_is_an_error_with_the_memory_it_needs(
    server_options: Path, checkpoint_dir: Path, caches: Path
) -> None:
    server_options.write_text("--most 3 --long")
    engine = VllmEngine()
    engine.load(checkpoint_dir)
    assert engine._served.plan.sequences == 2
    engine.close()
    server_options.write_text("--most 0 --long")
    with pytest.raises(Failure) as raised:
        load(checkpoint_dir, caches)
    error = raised.value.error
    assert (error.code, error.retryable) == ("ModelUnavailable", False)
    for part in ("max seq len (32768)", "4.5 GiB", "2.1 GiB", "estimated maximum model length is 15296"):
        assert part in error.message
    assert error.remedy.startswith("Choose an instance type with more GPU memory")
    assert (caches / "vllm" / "graph.py").exists()


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_model, "_FREEING_SECONDS", 0.01)


@pytest.mark.usefixtures("short_waits")
def test_a_start_takes_the_memory_that_others_leave(
    server_options: Path, checkpoint_dir: Path, caches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server_options.write_text("--free 0.5")
    monkeypatch.setattr(vllm_command, "free_share", lambda: 0.53)
    load(checkpoint_dir, caches)
    assert (caches / "vllm" / "graph.py").exists()
    monkeypatch.setattr(vllm_command, "free_share", lambda: 0.93)
    with pytest.raises(Failure, match="Other programs hold") as raised:
        load(checkpoint_dir, caches)
    assert raised.value.error.retryable and "nvidia-smi" in raised.value.error.remedy
    assert (caches / "vllm" / "graph.py").exists()


@pytest.mark.usefixtures("short_waits")
def test_a_restart_waits_until_memory_is_freed(
    run_all: Run, dying: VllmEngine, server_options: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, shares = dying._served.plan, [0.1, 0.4]

    def free_share() -> float:
        if shares:
            return shares.pop(0)
        server_options.write_text("")
        return 1.0

    monkeypatch.setattr(vllm_command, "free_share", free_share)
    run_all("die")
    server_options.write_text("--free 0.1")
    assert isinstance(run_all("fine")[0], Answer)
    assert dying._served.plan == plan and not shares


def test_after_enough_answers_a_restart_uses_the_full_plan(
    run_all: Run, dying: VllmEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_model, "FULL_PLAN_AFTER", 2)
    whole = dying._served.plan
    run_all("oom")
    run_all("one")
    run_all("die")
    run_all("two")
    assert dying._served.plan.sequences == whole.sequences // 4, "too early"
    run_all("die")
    run_all("three")
    assert dying._served.plan == whole
    run_all("oom")
    dying.close()
    assert dying._served.plan == whole, "for what is loaded next"


def test_compiled_code_is_kept_if_the_model_does_not_fit(
    server_options: Path, checkpoint_dir: Path, caches: Path
) -> None:
    server_options.write_text("--most 0")
    with pytest.raises(Failure, match="does not fit"):
        load(checkpoint_dir, caches)
    assert (caches / "vllm" / "graph.py").exists()


def test_the_plan_becomes_smaller_once_whichever_job_restarts_the_server(dying: VllmEngine) -> None:
    """Another job may restart the server before the failed requests are handled."""
    before, server = dying._served.plan.sequences, dying._served._server
    assert server is not None
    server._lines.append("torch.OutOfMemoryError: CUDA out of memory.")
    os.kill(server._process.pid, signal.SIGKILL)
    server.wait(20)

    async def both() -> None:
        await dying._served._running_server()
        await dying._served._explain(server, httpx2.ReadError("it is gone"), was_alone=True)

    asyncio.run(both())
    assert dying._served._server is not None and dying._served._server.last_lines[0] == f"serving {before // 4}"
    assert (dying._served.plan.sequences, dying._served._crashes) == (before // 4, 1)
