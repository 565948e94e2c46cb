"""A checkpoint in the layout of Cosmos3-Edge's reasoner answers, on Transformers and on the real vLLM."""

import asyncio
from pathlib import Path

import pytest

from cosmos_batch.engines.protocol import Engine
from cosmos_batch.engines.reasoner.transformers.engine import TransformersEngine
from cosmos_batch.engines.reasoner.vllm.engine import VllmEngine
from tests.engines.conftest import make_job, place
from tests.support.real_vllm import needs_vllm
from tests.support.tiny_edge_reasoner import build_edge_reasoner


@pytest.fixture(scope="module")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_edge_reasoner(tmp_path_factory.mktemp("models"))


@pytest.mark.parametrize("engine", [TransformersEngine, pytest.param(VllmEngine, marks=[needs_vllm, pytest.mark.slow])])
def test_it_answers_images_and_videos(
    engine: type[Engine], edge: Path, picture: Path, clip: Path, tmp_path: Path
) -> None:
    loaded = engine()
    loaded.load(edge)
    try:
        for medium in (picture, clip):
            job = make_job(medium.name, maxTokens=8)
            place(medium, job, tmp_path / medium.stem)
            answer = asyncio.run(loaded.run(job, tmp_path / medium.stem))
            assert 0 < answer.usage.completion_tokens <= 8 and answer.usage.prompt_tokens > 20
    finally:
        loaded.close()
