"""The real vLLM starts on a new machine with what it left on another."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cosmos_batch.engines.reasoner.vllm.engine import VllmEngine
from cosmos_batch.store.packs import contents, pack, unpack
from tests.real_vllm import needs_vllm

pytestmark = [needs_vllm, pytest.mark.timeout(900)]

MADE_FOR = {"test": "cold start"}
Start = Callable[[], VllmEngine]


@pytest.fixture(scope="module")
def caches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """At one path on all machines."""
    return tmp_path_factory.mktemp("machine") / "caches"


@pytest.fixture
def start(caches: Path, checkpoint_dir: Path) -> Iterator[Start]:
    """A server that answers, once."""
    engine = VllmEngine()

    def start() -> VllmEngine:
        engine.caches = caches
        engine.load(checkpoint_dir)
        return engine

    yield start
    engine.close()


@pytest.fixture(scope="module")
def packed(caches: Path, checkpoint_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a first worker leaves."""
    caches.mkdir()
    engine = VllmEngine()
    engine.caches = caches
    engine.load(checkpoint_dir)
    engine.close()
    target = tmp_path_factory.mktemp("store") / "pack"
    pack(caches, MADE_FOR, target)
    return target


def test_the_second_uses_what_the_first_left_and_adds_nothing(packed: Path, caches: Path, start: Start) -> None:
    shutil.rmtree(caches)
    unpack(packed, MADE_FOR, caches)
    before = {name: (size, (caches / name).stat().st_mtime_ns) for name, size in contents(caches).items()}
    assert any(name.startswith("vllm/modelinfos/") for name in before)
    engine = start()
    after = {name: (size, (caches / name).stat().st_mtime_ns) for name, size in contents(caches).items()}
    assert after == before, "vLLM writes a file anew that it cannot use"
    assert engine.startup_seconds["imports"] > 0 < engine.startup_seconds["rest"]
    assert not [line for line in engine.startup_logs if "Multi-modal warmup completed" in line], "the dummy video"
    assert engine.startup_logs[-1].startswith(f"{engine.name} is ready: imports ")


def test_files_that_are_broken_do_not_stop_it(packed: Path, caches: Path, start: Start) -> None:
    shutil.rmtree(caches)
    unpack(packed, MADE_FOR, caches)
    for name in contents(caches):
        (caches / name).write_bytes(b"\0" * 10)
    start()
    assert 10 not in contents(caches).values()
