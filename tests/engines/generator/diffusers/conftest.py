"""Fixtures: the Diffusers engine with the tiny checkpoint, loaded once."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.demo.generator import build_random_generator
from cosmos_batch.engines.generator.diffusers.engine import DiffusersEngine
from cosmos_batch.engines.job_files import GenerationFiles
from cosmos_batch.engines.library_imports import import_diffusers
from tests.support.generations import settled
from tests.support.generator_jobs import SHORT, SMALL, Files, kind_of

PLAIN = {"mode": "t2v", **SMALL, "num_frames": 5}
FOLLOWED = {"mode": "transfer", "controls": {"edge": {}}, **SMALL, "num_frames": 5}

Make = Callable[..., Files]


@pytest.fixture(scope="package")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_random_generator(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="package", autouse=True)
def equal_timesteps() -> Iterator[None]:
    """Fail where tokens of one pass have different timesteps, because only the first of them is embedded."""
    import_diffusers()
    from cosmos_batch.engines.generator.diffusers.transformer import SharedTimestepEmbedding

    forward = SharedTimestepEmbedding.forward

    def checked(embedder: Any, sample: Any, condition: Any = None) -> Any:
        assert (sample == sample[:1]).all(), "tokens of one pass have different timesteps"
        return forward(embedder, sample, condition)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SharedTimestepEmbedding, "forward", checked)
        yield


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record how many tokens the noise stream has in each layer that is computed."""
    from cosmos_batch.engines.generator.diffusers.transformer import TwoStreamLayer

    seen: list[int] = []
    forward = TwoStreamLayer.forward

    def counted(layer: Any, key: Any, value: Any, noise: Any, *rest: Any) -> Any:
        seen.append(noise.shape[0])
        return forward(layer, key, value, noise, *rest)

    monkeypatch.setattr(TwoStreamLayer, "forward", counted)
    return seen


@pytest.fixture(scope="package")
def engine(checkpoint: Path) -> Iterator[DiffusersEngine]:
    engine = DiffusersEngine()
    engine.guardrails = False
    engine.load(checkpoint)
    yield engine
    engine.close()


@pytest.fixture
def make(engine: DiffusersEngine, tmp_path: Path) -> Make:
    def make(
        parameters: dict[str, Any], medium: Path | None = None, *, guardrails: bool = False, **options: Any
    ) -> Files:
        controls, progress = options.pop("controls", {}), options.pop("progress", lambda *_: None)
        generation = settled({**SHORT, **parameters}, kind_of(medium), guardrails=guardrails, **options)
        folder = tmp_path / "out"
        folder.mkdir(exist_ok=True)
        result = asyncio.run(engine.generate(generation, GenerationFiles(medium, controls), folder, progress))
        return Files(result, folder)

    return make
