"""The real vLLM-Omni server on a CPU, with a tiny random checkpoint, started once.

`make test-omni` runs this folder in an environment of its own, since vLLM-Omni's pins conflict with ours; where that is
not installed, nothing here is collected.
"""

import asyncio
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.demo.generator import build_random_generator
from cosmos_batch.engines.job_files import GenerationFiles
from tests.support.generations import settled
from tests.support.generator_jobs import Files, kind_of

collect_ignore_glob = [] if find_spec("vllm_omni") else ["test_*.py"]


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_random_generator(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def engine(checkpoint: Path) -> Iterator[Any]:
    from cosmos_batch.engines.generator.vllm_omni.engine import VllmOmniEngine

    engine = VllmOmniEngine()
    engine.guardrails = False
    engine.load(checkpoint)
    yield engine
    engine.close()


Make = Callable[..., Files]


@pytest.fixture
def make(engine: Any, tmp_path: Path) -> Make:
    def make(parameters: dict[str, Any], medium: Path | None = None, **controls: Path) -> Files:
        generation = settled(parameters, kind_of(medium), guardrails=False, engine="vllm-omni")
        folder = tmp_path / "out"
        folder.mkdir(exist_ok=True)
        files = GenerationFiles(medium, controls)  # type: ignore[arg-type]
        return Files(asyncio.run(engine.generate(generation, files, folder)), folder)

    return make
