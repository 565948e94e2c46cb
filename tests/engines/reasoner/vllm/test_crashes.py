"""The vLLM engine recovers when its server crashes, hangs or fails, with a stand-in that does so on request."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.result import Answer
from cosmos_batch.engines import compile_cache
from cosmos_batch.engines.compile_cache import cache_variables
from cosmos_batch.engines.errors import EngineDied
from cosmos_batch.engines.journal import Journal
from cosmos_batch.engines.protocol import CompilingEngine
from cosmos_batch.engines.reasoner.transformers.engine import TransformersEngine
from cosmos_batch.engines.reasoner.vllm.command import serve_environment
from cosmos_batch.engines.reasoner.vllm.engine import VllmEngine
from cosmos_batch.engines.serving import served_model, watchdog
from cosmos_batch.engines.serving import server as server_module
from cosmos_batch.engines.serving.dialect import dialect_of
from cosmos_batch.engines.serving.served_model import CRASHES_IN_A_ROW, ServedModel
from cosmos_batch.engines.serving.server import Server
from tests.engines.conftest import load, make_job, place
from tests.support import vllm_server

Run = Callable[..., list[Answer | BaseException]]


def test_a_crash_fails_all_requests_and_the_next_is_answered(run_all: Run) -> None:
    (died,) = run_all("die")
    assert isinstance(died, EngineDied) and not died.for_good
    assert "was killed by SIGKILL" in died.error.message
    assert [answer.text for answer in run_all("one", "two") if isinstance(answer, Answer)] == ["one", "two"]


def test_a_crashed_server_leaves_no_files_and_processes(run_all: Run, dying: VllmEngine) -> None:
    dead = dying._served._server
    run_all("die")
    run_all("fine")
    assert dead is not None and dead is not dying._served._server
    assert not dead.folder.exists() and dead._guard.poll() is not None


def test_after_several_crashes_in_a_row_the_engine_gives_up(run_all: Run) -> None:
    deaths = [run_all("die")[0] for _ in range(CRASHES_IN_A_ROW)]
    assert [isinstance(one, EngineDied) and one.for_good for one in deaths] == [False] * (CRASHES_IN_A_ROW - 1) + [True]


def test_an_answer_resets_the_count_of_crashes(run_all: Run) -> None:
    for _ in range(CRASHES_IN_A_ROW):
        (died,) = run_all("die")
        assert isinstance(died, EngineDied) and not died.for_good
        run_all("fine")


def test_compiled_code_of_another_worker_is_kept(server_options: Path, checkpoint_dir: Path, caches: Path) -> None:
    engine = load(checkpoint_dir, caches)
    assert (caches / "vllm" / "graph.py").exists()
    assert "is ready: imports" in engine.startup_logs[-1]
    assert engine.startup_seconds["rest"] > 0


def test_a_server_that_fails_with_compiled_code_starts_without_it(
    server_options: Path, checkpoint_dir: Path, caches: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (caches / "vllm" / "broken.so").touch()
    load(checkpoint_dir, caches)
    assert list(caches.rglob("*.*")) == []
    [record] = [record for record in caplog.records if "without kept caches" in record.getMessage()]
    assert vars(record)["errors"] == ["ImportError: broken.so: file too short"]


def test_a_server_whose_port_another_process_has_starts_once_more_with_its_compiled_code(
    server_options: Path, checkpoint_dir: Path, caches: Path, tmp_path: Path
) -> None:
    server_options.write_text(f"--starts {tmp_path / 'starts'} --taken 1")
    load(checkpoint_dir, caches)
    assert (caches / "vllm" / "graph.py").exists() and len((tmp_path / "starts").read_text()) == 2


def test_a_port_that_stays_taken_is_a_retryable_error_and_costs_no_compiled_code(
    server_options: Path, checkpoint_dir: Path, caches: Path, tmp_path: Path
) -> None:
    server_options.write_text(f"--starts {tmp_path / 'starts'} --taken 9")
    with pytest.raises(Failure, match="Address already in use") as raised:
        load(checkpoint_dir, caches)
    assert raised.value.error.retryable and len((tmp_path / "starts").read_text()) == 2
    assert (caches / "vllm" / "graph.py").exists()


def test_all_that_a_server_printed_before_it_failed_to_start_is_logged(
    server_options: Path, checkpoint_dir: Path, caches: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server_options.write_text(f"--starts {tmp_path / 'starts'} --taken 1")
    load(checkpoint_dir, caches)
    [record] = [record for record in caplog.records if "did not start" in record.getMessage()]
    assert record.getMessage().endswith("ended with status 1")
    assert vars(record)["printed"] == ["serving 8", "OSError: [Errno 98] Address already in use"]


@pytest.mark.parametrize(
    "line",
    [
        "OSError: [Errno 98] Address already in use",
        "zmq.error.ZMQError: Address already in use (addr='tcp://127.0.0.1:5555')",
        "code: -98, name: EADDRINUSE, message: address already in use",  # torch's TCPStore, with libuv
    ],
)
def test_a_taken_port_is_known_by_the_words_of_each_library(line: str) -> None:
    assert dialect_of("vllm").found_address_in_use(line)


def test_a_server_that_fails_where_no_compiled_code_is_kept_is_not_started_again(
    server_options: Path, checkpoint_dir: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server_options.write_text("--unknown-option")
    (tmp_path / "empty").mkdir()
    with pytest.raises(Failure, match="vLLM, started for"):
        load(checkpoint_dir, tmp_path / "empty")
    assert not [record for record in caplog.records if "without kept caches" in record.getMessage()]


def test_all_compilers_use_one_folder(caches: Path, tmp_path: Path) -> None:
    variables = serve_environment(1, caches, tmp_path)
    for name in ("VLLM_CACHE_ROOT", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "FLASHINFER_WORKSPACE_BASE"):
        assert Path(variables[name]).parent == caches
    assert not set(serve_environment(1, None, tmp_path)) & set(cache_variables(caches))


def test_compiled_code_depends_on_libraries_gpus_and_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'NVIDIA L40S, 580.95.05'\necho 'NVIDIA L40S, 580.95.05'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    compiled_for = compile_cache.compiled_for(2)
    assert compiled_for["gpus"] == "NVIDIA L40S, 580.95.05; NVIDIA L40S, 580.95.05"
    assert compiled_for["torch"] == version("torch") and compiled_for["flashinfer-python"] == "none"
    program.write_text("#!/bin/sh\nexit 9\n")
    assert compile_cache.compiled_for(1)["gpus"] == "unknown"
    assert compile_cache.compiled_for(0)["gpus"] == "none"


def test_the_engine_is_a_compiling_engine(server_options: Path) -> None:
    assert isinstance(VllmEngine(), CompilingEngine)
    assert not isinstance(TransformersEngine(), CompilingEngine)


def test_a_server_that_cannot_start_again_ends_the_worker(run_all: Run, server_options: Path) -> None:
    run_all("die")
    server_options.write_text("--most 0")
    (died,) = run_all("anything")
    assert isinstance(died, EngineDied) and died.for_good
    assert "does not fit" in died.error.message and died.error.retryable, "it did before: others' jobs are not lost"


@pytest.fixture
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the limits of the watchdog and of stopping from minutes to seconds."""
    monkeypatch.setattr(watchdog, "POLL_SECONDS", 0.2)
    monkeypatch.setattr(watchdog, "SILENT_POLLS", 15)
    monkeypatch.setattr(server_module, "_STOP_SECONDS", 0.5)
    monkeypatch.setattr(served_model, "_HEALTH_SECONDS", 0.5)


def disable_watchdog(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the short limits from stopping a healthy server on a slow machine."""
    monkeypatch.setattr(watchdog, "SILENT_POLLS", 1_000_000)


@pytest.mark.parametrize("how", ["freeze", "hang"])
@pytest.mark.usefixtures("short_limits")
def test_a_server_that_hangs_is_stopped_and_fails_all_requests(
    run_all: Run, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Either the whole process hangs, or its core alone while `/health` answers."""
    ends = run_all(how, how)
    disable_watchdog(monkeypatch)
    assert all(isinstance(end, EngineDied) and not end.for_good for end in ends)
    assert {str(end) for end in ends} == {"The engine hung for 3 s and was stopped while it worked."}
    assert [answer.text for answer in run_all("fine") if isinstance(answer, Answer)] == ["fine"]


@pytest.mark.usefixtures("short_limits")
def test_a_server_that_makes_progress_is_not_stopped(run_all: Run) -> None:
    assert vllm_server.LONG > watchdog.SILENT_POLLS
    assert [str(getattr(answer, "text", answer)) for answer in run_all("long")] == ["long"]


@pytest.mark.usefixtures("short_limits")
def test_an_idle_server_does_not_count_as_hung(
    run_all: Run, dying: VllmEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = dying._served._server
    time.sleep(1.5 * watchdog.SILENT_POLLS * watchdog.POLL_SECONDS)
    disable_watchdog(monkeypatch)
    run_all("fine")
    assert dying._served._server is before


def test_closing_the_engine_stops_a_server_that_restarts(run_all: Run, dying: VllmEngine, server_options: Path) -> None:
    run_all("die")
    server_options.write_text("--deaf")
    dead = dying._served._server

    async def closed_meanwhile() -> Server:
        asking = asyncio.ensure_future(dying._served._running_server())
        while (starting := dying._served._server) is dead or starting is None or not starting.last_lines:
            await asyncio.sleep(0.05)
        await asyncio.to_thread(dying.close)
        with pytest.raises(EngineDied, match="closed while it started"):
            await asking
        return starting

    assert not asyncio.run(closed_meanwhile()).is_running
    assert dying._served._server is None


def test_closing_during_a_launch_stops_the_server(dying: VllmEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine is closed after the process started and before the engine has stored it."""
    born = []

    def launch(journal: Journal) -> Server:
        dying._served._closed.set()
        born.append(ServedModel._launch(dying._served, journal))
        return born[-1]

    monkeypatch.setattr(dying._served, "_launch", launch)
    with pytest.raises(Failure, match="closed while it started"):
        dying._served._start()
    assert [one.is_running for one in born] == [False]


def test_a_refused_request_leaves_the_others_alone(run_all: Run) -> None:
    fine, refused = run_all("fine", "refuse this")
    assert isinstance(fine, Answer) and isinstance(refused, Failure)
    assert not refused.error.retryable and "HTTP 400" in refused.error.message


def test_an_error_of_a_healthy_server_fails_one_request(run_all: Run) -> None:
    fine, failed = run_all("fine", "fail")
    assert isinstance(fine, Answer) and isinstance(failed, Failure)
    assert failed.error.retryable and "HTTP 500" in failed.error.message


def test_a_server_without_health_counts_as_crashed(run_all: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a crash of its core, vLLM answers with errors and fails `/health` before it ends."""
    monkeypatch.setattr(served_model, "_ENDING_SECONDS", 0.2)
    (died,) = run_all("fail and be unwell")
    assert isinstance(died, EngineDied) and not died.for_good
    assert [answer.text for answer in run_all("one", "two") if isinstance(answer, Answer)] == ["one", "two"]


def test_a_prompt_that_is_too_long_is_invalid_input(run_all: Run) -> None:
    (refused,) = run_all("refuse: exceeds the maximum context length")
    assert isinstance(refused, Failure) and refused.error.code == "InvalidInput"


def test_only_error_lines_of_a_crashed_server_are_logged(run_all: Run, caplog: pytest.LogCaptureFixture) -> None:
    run_all("oom and my secret prompt")
    [record] = [record for record in caplog.records if "starts again" in record.getMessage()]
    assert vars(record)["errors"] == ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate"]


def test_a_folder_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="no checkpoint"):
        VllmEngine().load(tmp_path)


def test_the_context_is_the_smaller_of_limit_and_checkpoint(server_options: Path, checkpoint_dir: Path) -> None:
    config = json.loads((checkpoint_dir / "config.json").read_text())
    own = config["text_config"]["max_position_embeddings"]
    for limit, got in ((None, own), (1024, 1024), (10**6, own)):
        engine = VllmEngine()
        engine.load(checkpoint_dir, limit)
        assert engine._served.plan.context == got
        engine.close()


def test_cancelling_a_job_stops_its_decoding(dying: VllmEngine, picture: Path, tmp_path: Path) -> None:
    """A process that the kernel has stopped stands for one that decodes for minutes."""
    [process] = dying._preparation._idle
    os.kill(process._process.pid, signal.SIGSTOP)
    job = make_job(picture.name)
    place(picture, job, tmp_path)

    async def scene() -> None:
        asking = asyncio.create_task(dying.run(job, tmp_path))
        while dying._preparation._idle:
            await asyncio.sleep(0.01)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        while process.is_running:
            await asyncio.sleep(0.01)

    asyncio.run(scene())
