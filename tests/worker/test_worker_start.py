"""The phases of a start are logged, and compiled code is kept for the next worker."""

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.contract.metrics import ENGINE_START_PHASES, START_PHASES, START_SECONDS
from cosmos_batch.worker.logs import JsonLines
from tests.support.scripted_engine import ScriptedEngine
from tests.worker.conftest import WorkerFixture


class Compiler(ScriptedEngine):
    """Compiles one file when it loads and one when it answers, unless they are in its caches."""

    def __init__(self) -> None:
        super().__init__()
        self.caches: Path | None = None
        self.startup_seconds = dict.fromkeys(ENGINE_START_PHASES, 1.5)
        self.compiled: list[str] = []

    def compiled_for(self) -> dict[str, str]:
        return {"gpus": "NVIDIA L40S, 580.95"}

    def load(self, model_dir: Path, context: int | None = None) -> None:
        super().load(model_dir, context)
        self._compile("graph")

    async def run(self, *given: Any) -> Any:
        self._compile("kernel")
        return await super().run(*given)

    def _compile(self, what: str) -> None:
        assert self.caches is not None
        if not (self.caches / what).exists():
            self.compiled.append(what)
            (self.caches / what).touch()


@pytest.fixture
def machine(
    bench: WorkerFixture, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], None]:
    """Return a function that moves the test to another machine with empty folders."""
    bench.s3.create_bucket(Bucket="model-bucket")
    return lambda name: monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp(name)))


def test_a_second_worker_on_another_host_compiles_nothing(bench: WorkerFixture, machine: Callable[[str], None]) -> None:
    compiled = []
    for name in ("first", "second"):
        machine(name)
        engine = Compiler()
        bench.send(bench.job(name))
        bench.worker(name, engine).run()
        compiled.append(engine.compiled)
    assert compiled == [["graph", "kernel"], []]


def test_compiled_code_is_kept_before_the_first_job(
    bench: WorkerFixture, machine: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine("first")
    worker = bench.worker("first", Compiler())
    monkeypatch.setattr(worker.model, "backed_up", lambda: asyncio.wait(worker.model._back_ups))
    bench.send(bench.job())
    worker.run()
    [entry] = bench.s3.list_objects_v2(Bucket="model-bucket")["Contents"]
    assert entry["Key"].startswith("caches/cosmos-reason2-2b/")


def test_an_engine_that_compiles_nothing_keeps_nothing(bench: WorkerFixture, machine: Callable[[str], None]) -> None:
    machine("first")
    bench.send(bench.job())
    bench.worker().run()
    assert "Contents" not in bench.s3.list_objects_v2(Bucket="model-bucket")


def call(records: list[logging.LogRecord]) -> dict[str, float]:
    """Return the metrics of a start by phase, in the form in which CloudWatch reads them from the log."""
    lines = [json.loads(JsonLines().format(record)) for record in records if hasattr(record, "_aws")]
    for line in lines:
        [directive] = line["_aws"]["CloudWatchMetrics"]
        assert directive["Dimensions"] == [["pipeline", "phase"]] and line["pipeline"] == "cosmos-reason2-2b"
        assert directive["Metrics"] == [{"Name": START_SECONDS, "Unit": "Seconds"}]
    return {line["phase"]: line[START_SECONDS] for line in lines}


def test_each_phase_of_a_start_is_logged_and_measured(
    bench: WorkerFixture, machine: Callable[[str], None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    machine("first")
    worker = bench.worker("first", Compiler())
    worker.loop.boot_seconds = 0.25
    worker.run()
    seconds = call(caplog.records)
    assert list(seconds) == [*START_PHASES, *ENGINE_START_PHASES]
    assert seconds["boot"] == 0.25 and seconds["compile"] == 1.5
    [line] = [record.getMessage() for record in caplog.records if "ready to serve" in record.getMessage()]
    assert "boot 0.2 s, model" in line and "graphs 1.5 s" in line


def test_an_engine_without_phases_is_logged_as_a_single_phase(
    bench: WorkerFixture, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    bench.worker().run()
    assert list(call(caplog.records)) == ["host", "boot", "model", "engine"]
