"""Fixtures: the vLLM-Omni engine with the stand-in server, and the requests that the server received."""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.result import GeneratorOutput
from cosmos_batch.demo.tokenizer import train_tokenizer, write_json, write_tokenizer
from cosmos_batch.engines.generator.vllm_omni import engine as vllm_omni
from cosmos_batch.engines.generator.vllm_omni.command import OmniPlan
from cosmos_batch.engines.generator.vllm_omni.engine import VllmOmniEngine
from cosmos_batch.engines.job_files import GenerationFiles
from tests.support import generator_jobs, vllm_omni_server
from tests.support.generations import settled
from tests.support.generator_jobs import FEW, PROMPT, kind_of

VIDEO = {"mode": "t2v", **FEW}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the files of a checkpoint that the engine reads before its server starts."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    (folder / "text_tokenizer").mkdir(parents=True)
    (folder / "transformer").mkdir()
    write_tokenizer(folder / "text_tokenizer", train_tokenizer())
    write_json(folder / "transformer" / "config.json", {"sound_gen": True, "action_gen": True})
    write_json(folder / "model_index.json", {"_class_name": "Cosmos3OmniPipeline"})
    return folder


@pytest.fixture
def sent_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[dict[str, Any]]]:
    """Start the stand-in in place of the real server, and return a function that reads the requests it received."""
    file = tmp_path / "asked"
    script = str(Path(vllm_omni_server.__file__))

    def command(_plan: OmniPlan, _checkpoint: Path, folder: Path) -> list[str]:
        return [sys.executable, script, str(folder / "socket"), str(file)]

    monkeypatch.setattr(OmniPlan, "command", command)
    monkeypatch.setattr(vllm_omni, "version", lambda _: "0.30.0")
    return lambda: [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture
def engine(sent_requests: Any, checkpoint: Path) -> Iterator[VllmOmniEngine]:
    engine = VllmOmniEngine()
    engine.load(checkpoint)
    yield engine
    engine.close()


Make = Callable[..., GeneratorOutput]


@pytest.fixture
def make(engine: VllmOmniEngine, tmp_path: Path) -> Make:
    def make(parameters: dict[str, Any], medium: Path | None = None, **options: Any) -> GeneratorOutput:
        controls = options.pop("controls", {})
        return asyncio.run(
            engine.generate(
                generation(parameters, medium, **options), GenerationFiles(medium, controls), folder(tmp_path)
            )
        )

    return make


def generation(
    parameters: dict[str, Any], medium: Path | None = None, prompt: str = PROMPT, **options: Any
) -> Generation:
    return settled(parameters, kind_of(medium), prompt, **options)


def folder(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir(exist_ok=True)
    return tmp_path / "out"


def video(result: GeneratorOutput, tmp_path: Path) -> tuple[int, int, int, float]:
    """Return width, height, frame count and frame rate, after checking them, and the sound, against the generation."""
    path = tmp_path / "out" / "output.mp4"
    assert result.files[0].name == path.name
    generator_jobs.check(path, result.generation)
    return generator_jobs.video(path)[:4]


def probe_upload(parameters: dict[str, Any], field: str) -> str:
    """Return the file name of the only upload, which must not be empty."""
    name, size = parameters["files"][field]
    assert size > 100 and set(parameters["files"]) == {field}
    return str(name)
