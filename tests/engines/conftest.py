"""Fixtures for tests of engines: tiny checkpoints, loaded engines, jobs, and a stand-in for vLLM's server."""

import asyncio
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Answer
from cosmos_batch.demo.checkpoint import build_random_checkpoint
from cosmos_batch.engines import gpus
from cosmos_batch.engines.job_files import input_paths
from cosmos_batch.engines.reasoner.transformers.engine import TransformersEngine
from cosmos_batch.engines.reasoner.vllm import command as vllm_command
from cosmos_batch.engines.reasoner.vllm.command import VllmPlan
from cosmos_batch.engines.reasoner.vllm.engine import VllmEngine

ROOT = Path(__file__).parents[2]

Run = Callable[..., Answer]
RunAll = Callable[..., list[Answer | BaseException]]


def stand_in(patch: pytest.MonkeyPatch, server_options: Path) -> None:
    """Let vLLM's engine start the server of `tests/support/vllm_server.py`, which is server_options what a file says
    when it starts."""
    script = str(ROOT / "tests" / "support" / "vllm_server.py")

    def command(_folder: Path, plan: VllmPlan, _media: Path, folder: Path) -> list[str]:
        plans = ["--sequences", str(plan.sequences), "--memory", str(plan.memory)]
        return [sys.executable, script, str(folder / "socket"), *plans, *server_options.read_text().split()]

    patch.setattr(vllm_command, "serve_command", command)


@pytest.fixture(scope="session")
def checkpoint_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_random_checkpoint(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def engine(checkpoint_dir: Path) -> Iterator[TransformersEngine]:
    engine = TransformersEngine()
    engine.load(checkpoint_dir)
    yield engine
    engine.close()


def make_job(name: str, prompt: str = "What happens?", *, more: Sequence[str] = (), **parameters: Any) -> Job:
    now = datetime.now(UTC)
    return Job.model_validate(
        {
            "jobId": "job",
            "executionArn": "arn",
            "pipeline": "cosmos-reason2-2b",
            "input": _file(name),
            "moreInputs": [_file(one) for one in more],
            "prompt": prompt,
            "promptUri": None,
            "systemPrompt": "You are a helpful assistant.",
            "parameters": parameters,
            "document": {"bucket": "assets", "key": "answer.json"},
            "timestamp": "20261120-120000",
            "createdAt": now,
            "deadline": now + timedelta(hours=1),
            "invalidateModel": False,
        }
    )


def _file(name: str) -> dict[str, Any]:
    return {"bucket": "assets", "key": name, "versionId": None, "etag": '"e"', "size": 1}


def place(source: Path, job: Job, workdir: Path, *more: Path) -> None:
    """Put files where the engine looks for a job's inputs."""
    workdir.mkdir(parents=True, exist_ok=True)
    for file, path in zip((source, *more), input_paths(job, workdir), strict=True):
        shutil.copy(file, path)


@pytest.fixture
def run(engine: TransformersEngine, tmp_path: Path) -> Run:
    """Answer one file with `maxTokens` 8 unless server_options otherwise."""

    def run(source: Path, prompt: str = "What happens?", **parameters: Any) -> Answer:
        job = make_job(source.name, prompt, **{"maxTokens": 8, **parameters})
        place(source, job, tmp_path)
        return asyncio.run(engine.run(job, tmp_path))

    return run


@pytest.fixture
def server_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a file with the options that the stand-in server reads when it starts."""
    file = tmp_path / "server_options"
    file.touch()
    stand_in(monkeypatch, file)
    return file


@pytest.fixture
def dying(server_options: Path, checkpoint_dir: Path) -> Iterator[VllmEngine]:
    engine = VllmEngine()
    engine.load(checkpoint_dir)
    yield engine
    engine.close()


@pytest.fixture
def run_all(dying: VllmEngine, picture: Path, tmp_path: Path) -> RunAll:
    """Send several prompts at once, and return the answer or exception of each."""

    def run_all(*prompts: str) -> list[Answer | BaseException]:
        async def ask() -> list[Answer | BaseException]:
            runs = []
            for number, prompt in enumerate(prompts):
                job = make_job(picture.name, prompt)
                place(picture, job, tmp_path / str(number))
                runs.append(dying.run(job, tmp_path / str(number)))
            return await asyncio.gather(*runs, return_exceptions=True)

        return asyncio.run(ask())

    return run_all


@pytest.fixture
def caches(tmp_path: Path) -> Path:
    """Provide a folder with code that another worker compiled."""
    folder = tmp_path / "caches"
    (folder / "vllm").mkdir(parents=True)
    (folder / "vllm" / "graph.py").touch()
    return folder


def load(checkpoint_dir: Path, caches: Path) -> VllmEngine:
    engine = VllmEngine()
    engine.caches = caches
    engine.load(checkpoint_dir)
    engine.close()
    return engine


@pytest.fixture
def devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide the device folder of a machine with two GPUs."""
    monkeypatch.setattr(gpus, "DEVICES", tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for name in ("nvidiactl", "nvidia0", "nvidia1", "nvidia-uvm"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a file with the output of the fake `nvidia-smi`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program, output = folder / "nvidia-smi", tmp_path / "said"
    program.write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/asked\nwhile read -r line; do echo "$line"; done < {output}\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return output
