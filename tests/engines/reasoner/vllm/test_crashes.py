"""What the vLLM engine does when its server dies, on a server that dies when it is told to."""

import asyncio
import json
import os
import threading
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
from cosmos_batch.engines.reasoner.vllm import engine as vllm_module
from cosmos_batch.engines.reasoner.vllm.command import serve_environment
from cosmos_batch.engines.reasoner.vllm.engine import VllmEngine
from cosmos_batch.engines.serving import served_model, watchdog
from cosmos_batch.engines.serving import server as server_module
from cosmos_batch.engines.serving.served_model import CRASHES_IN_A_ROW, ServedModel
from cosmos_batch.engines.serving.server import Server
from tests.engines.conftest import load, make_job, place
from tests.support import vllm_server

Run = Callable[..., list[Answer | BaseException]]


def test_a_death_is_everybodys_and_the_next_is_answered(run_all: Run) -> None:
    (died,) = run_all("die")
    assert isinstance(died, EngineDied) and not died.for_good
    assert "was killed by SIGKILL" in died.error.message
    assert [answer.text for answer in run_all("one", "two") if isinstance(answer, Answer)] == ["one", "two"]


def test_a_dead_one_leaves_nothing_behind(run_all: Run, dying: VllmEngine) -> None:
    dead = dying._served._server
    run_all("die")
    run_all("fine")
    assert dead is not None and dead is not dying._served._server
    assert not dead.folder.exists() and dead._guard.poll() is not None


def test_one_that_dies_again_and_again_is_given_up(run_all: Run) -> None:
    deaths = [run_all("die")[0] for _ in range(CRASHES_IN_A_ROW)]
    assert [isinstance(one, EngineDied) and one.for_good for one in deaths] == [False] * (CRASHES_IN_A_ROW - 1) + [True]


def test_an_answer_in_between_forgives(run_all: Run) -> None:
    for _ in range(CRASHES_IN_A_ROW):
        (died,) = run_all("die")
        assert isinstance(died, EngineDied) and not died.for_good
        run_all("fine")


def test_what_another_compiled_stays(told: Path, checkpoint_dir: Path, caches: Path) -> None:
    engine = load(checkpoint_dir, caches)
    assert (caches / "vllm" / "graph.py").exists()
    assert "is ready: imports" in engine.startup_logs[-1]
    assert engine.startup_seconds["rest"] > 0


def test_where_it_cannot_start_with_it_it_starts_without(
    told: Path, checkpoint_dir: Path, caches: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (caches / "vllm" / "broken.so").touch()
    load(checkpoint_dir, caches)
    assert list(caches.rglob("*.*")) == []
    [record] = [record for record in caplog.records if "without kept caches" in record.getMessage()]
    assert vars(record)["errors"] == ["ImportError: broken.so: file too short"]


def test_all_that_compiles_keeps_it_in_one_folder(caches: Path, tmp_path: Path) -> None:
    variables = serve_environment(1, caches, tmp_path)
    for name in ("VLLM_CACHE_ROOT", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "FLASHINFER_WORKSPACE_BASE"):
        assert Path(variables[name]).parent == caches
    assert not set(serve_environment(1, None, tmp_path)) & set(cache_variables(caches))


def test_what_is_compiled_depends_on_libraries_gpus_and_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_the_engine_is_one_that_compiles(told: Path) -> None:
    assert isinstance(VllmEngine(), CompilingEngine)
    assert not isinstance(TransformersEngine(), CompilingEngine)


def test_a_server_that_cannot_start_again_ends_the_worker(run_all: Run, told: Path) -> None:
    run_all("die")
    told.write_text("--most 0")
    (died,) = run_all("anything")
    assert isinstance(died, EngineDied) and died.for_good
    assert "does not fit" in died.error.message and died.error.retryable, "it did before: others' jobs are not lost"


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes minutes takes moments, for servers that are to be found hanging."""
    monkeypatch.setattr(watchdog, "POLL_SECONDS", 0.2)
    monkeypatch.setattr(watchdog, "SILENT_POLLS", 15)
    monkeypatch.setattr(server_module, "_STOP_SECONDS", 0.5)
    monkeypatch.setattr(served_model, "_HEALTH_SECONDS", 0.5)


def wait_for_a_sound_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sound server that is as slow as a busy machine makes it must not be found hanging by the moments of a test."""
    monkeypatch.setattr(watchdog, "SILENT_POLLS", 1_000_000)


@pytest.mark.parametrize("how", ["freeze", "hang"])
@pytest.mark.usefixtures("quickly")
def test_one_that_hangs_is_a_dead_one_for_all_who_wait(run_all: Run, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process, or its core alone: then its health is good."""
    ends = run_all(how, how)
    wait_for_a_sound_one(monkeypatch)
    assert all(isinstance(end, EngineDied) and not end.for_good for end in ends)
    assert {str(end) for end in ends} == {"The engine hung for 3 s and was stopped while it worked."}
    assert [answer.text for answer in run_all("fine") if isinstance(answer, Answer)] == ["fine"]


@pytest.mark.usefixtures("quickly")
def test_one_that_goes_on_is_left_to_it_however_long_it_takes(run_all: Run) -> None:
    assert vllm_server.LONG > watchdog.SILENT_POLLS
    assert [str(getattr(answer, "text", answer)) for answer in run_all("long")] == ["long"]


@pytest.mark.usefixtures("quickly")
def test_one_that_is_asked_nothing_does_nothing(
    run_all: Run, dying: VllmEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = dying._served._server
    time.sleep(1.5 * watchdog.SILENT_POLLS * watchdog.POLL_SECONDS)
    wait_for_a_sound_one(monkeypatch)
    run_all("fine")
    assert dying._served._server is before


def test_what_is_started_again_is_stopped_with_the_engine(run_all: Run, dying: VllmEngine, told: Path) -> None:
    run_all("die")
    told.write_text("--deaf")
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


def test_a_start_that_a_close_did_not_see_ends_itself(dying: VllmEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine is closed in the moment between a process's birth and the note of it."""
    born = []

    def launch(journal: Journal) -> Server:
        dying._served._closed.set()
        born.append(ServedModel._launch(dying._served, journal))
        return born[-1]

    monkeypatch.setattr(dying._served, "_launch", launch)
    with pytest.raises(Failure, match="closed while it started"):
        dying._served._start()
    assert [one.is_running for one in born] == [False]


def test_a_refusal_is_one_requests_alone(run_all: Run) -> None:
    fine, refused = run_all("fine", "refuse this")
    assert isinstance(fine, Answer) and isinstance(refused, Failure)
    assert not refused.error.retryable and "HTTP 400" in refused.error.message


def test_a_servers_own_fault_is_one_requests_alone_while_the_server_is_well(run_all: Run) -> None:
    fine, failed = run_all("fine", "fail")
    assert isinstance(fine, Answer) and isinstance(failed, Failure)
    assert failed.error.retryable and "HTTP 500" in failed.error.message


def test_a_server_whose_core_died_is_a_dead_one(run_all: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers what was in the core with an error, and its health is gone, before it ends itself."""
    monkeypatch.setattr(served_model, "_ENDING_SECONDS", 0.2)
    (died,) = run_all("fail and be unwell")
    assert isinstance(died, EngineDied) and not died.for_good
    assert [answer.text for answer in run_all("one", "two") if isinstance(answer, Answer)] == ["one", "two"]


def test_a_prompt_too_long_is_the_callers(run_all: Run) -> None:
    (refused,) = run_all("refuse: exceeds the maximum context length")
    assert isinstance(refused, Failure) and refused.error.code == "InvalidInput"


def test_of_a_dying_servers_words_only_errors_are_logged(run_all: Run, caplog: pytest.LogCaptureFixture) -> None:
    run_all("oom and my secret prompt")
    [record] = [record for record in caplog.records if "starts again" in record.getMessage()]
    assert vars(record)["errors"] == ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate"]


def test_a_folder_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="no checkpoint"):
        VllmEngine().load(tmp_path)


def test_the_context_is_the_smaller_of_the_two(told: Path, checkpoint_dir: Path) -> None:
    config = json.loads((checkpoint_dir / "config.json").read_text())
    own = config["text_config"]["max_position_embeddings"]
    for asked, got in ((None, own), (1024, 1024), (10**6, own)):
        engine = VllmEngine()
        engine.load(checkpoint_dir, asked)
        assert engine._served.plan.context == got
        engine.close()


def test_cancelling_ends_what_decodes_for_it(
    dying: VllmEngine, picture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = threading.Event(), threading.Event()

    def decode(_reader: object, _job: object, _paths: object, check: Callable[[], None]) -> None:
        begun.set()
        try:
            while True:
                check()
                time.sleep(0.01)
        finally:
            ended.set()

    monkeypatch.setattr(vllm_module, "prepare_request", decode)
    job = make_job(picture.name)
    place(picture, job, tmp_path)

    async def scene() -> None:
        asking = asyncio.create_task(dying.run(job, tmp_path))
        assert await asyncio.to_thread(begun.wait, 20)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert await asyncio.to_thread(ended.wait, 20)

    asyncio.run(scene())
