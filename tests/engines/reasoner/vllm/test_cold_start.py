"""A real vLLM server starts with code that another one compiled."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cosmos_batch.engines.reasoner.vllm.engine import VllmEngine
from cosmos_batch.store.cache_archive import extract_archive, list_files, write_archive
from tests.support.real_vllm import needs_vllm
from tests.support.tiny_edge_reasoner import build_edge_reasoner

pytestmark = [needs_vllm, pytest.mark.slow, pytest.mark.timeout(900)]

MADE_FOR = {"test": "cold start"}
# What vLLM learns of a model's architecture, in a process that imports all of it.
LEARNED = "vllm/modelinfos/vllm-model_executor-models-cosmos3_edge-Cosmos3EdgeForConditionalGeneration.json"
Start = Callable[[], VllmEngine]


@pytest.fixture(scope="module")
def caches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide the folder for compiled code, which has the same path on all machines."""
    return tmp_path_factory.mktemp("machine") / "caches"


@pytest.fixture(scope="module")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_edge_reasoner(tmp_path_factory.mktemp("models"))


@pytest.fixture
def start(caches: Path, edge: Path) -> Iterator[Start]:
    """Start a server, answer one job, and stop it."""
    engine = VllmEngine()

    def start() -> VllmEngine:
        engine.caches = caches
        engine.load(edge)
        return engine

    yield start
    engine.close()


@pytest.fixture(scope="module")
def packed(caches: Path, edge: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide the compiled code of a first worker, which found a broken file."""
    (caches / LEARNED).parent.mkdir(parents=True)
    (caches / LEARNED).write_bytes(b"\0" * 10)
    engine = VllmEngine()
    engine.caches = caches
    engine.load(edge)
    engine.close()
    target = tmp_path_factory.mktemp("store") / "pack"
    write_archive(caches, MADE_FOR, target)
    return target


def test_a_broken_cache_file_does_not_prevent_the_start(packed: Path, tmp_path: Path) -> None:
    extract_archive(packed, MADE_FOR, tmp_path / "caches")
    assert list_files(tmp_path / "caches")[LEARNED] > 10, "vLLM wrote it anew"


def test_the_second_start_uses_the_firsts_code_and_adds_none(packed: Path, caches: Path, start: Start) -> None:
    shutil.rmtree(caches)
    extract_archive(packed, MADE_FOR, caches)
    before = {name: (size, (caches / name).stat().st_mtime_ns) for name, size in list_files(caches).items()}
    assert LEARNED in before
    engine = start()
    after = {name: (size, (caches / name).stat().st_mtime_ns) for name, size in list_files(caches).items()}
    assert after == before, "vLLM writes a file anew that it cannot use"
    assert engine.startup_seconds["imports"] > 0 < engine.startup_seconds["rest"]
    assert not [line for line in engine.startup_logs if "Multi-modal warmup completed" in line], "the dummy video"
    assert engine.startup_logs[-1].startswith(f"{engine.name} is ready: imports ")
