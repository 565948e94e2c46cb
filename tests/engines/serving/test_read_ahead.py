"""Reading weights ahead reads every byte once, in many streams, if they stay in memory."""

import os
import threading
from pathlib import Path

import pytest

from cosmos_batch.engines.reasoner.vllm import engine as vllm
from cosmos_batch.engines.reasoner.vllm.command import VllmPlan, serve_command
from cosmos_batch.engines.serving import read_ahead as module
from cosmos_batch.engines.serving.read_ahead import read_ahead


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a checkpoint like Cosmos 3's: weights in folders, one file larger than a range."""
    monkeypatch.setattr(module, "RANGE", 1000)
    monkeypatch.setattr(module, "BLOCK", 300)
    (tmp_path / "transformer").mkdir()
    (tmp_path / "transformer" / "one.safetensors").write_bytes(os.urandom(2500))
    (tmp_path / "two.safetensors").write_bytes(os.urandom(1000))
    (tmp_path / "empty.safetensors").touch()
    (tmp_path / "tokenizer.json").write_text("{}")
    return tmp_path


Reads = list[tuple[str, int]]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    """Provide a list of the file and bytes of each read, to which several threads append."""
    reads: Reads = []
    preadv = os.preadv

    def noting(file: int, buffers: list[bytearray], offset: int) -> int:
        got = preadv(file, buffers, offset)
        reads.append((Path(f"/proc/self/fd/{file}").readlink().name, got))
        return got

    monkeypatch.setattr(os, "preadv", noting)
    return reads


def test_all_weights_are_read_and_nothing_else(checkpoint: Path, reads: Reads) -> None:
    with read_ahead(checkpoint) as readers:
        readers.shutdown()
    assert {name for name, _ in reads} == {"one.safetensors", "two.safetensors"}
    # The last block of a range may reach into the next.
    assert 2500 <= sum(got for name, got in reads if name == "one.safetensors") <= 3300
    assert sum(got for name, got in reads if name == "two.safetensors") == 1000


def test_weights_that_a_reasoner_does_not_load_are_not_read(checkpoint: Path, reads: Reads) -> None:
    for part in ("vae", "sound_tokenizer", "vision_encoder"):
        (checkpoint / part).mkdir()
        (checkpoint / part / f"{part}.safetensors").write_bytes(os.urandom(10))
    with read_ahead(checkpoint, vllm._WEIGHTS) as readers:
        readers.shutdown()
    assert {name for name, _ in reads} == {"one.safetensors", "two.safetensors", "vision_encoder.safetensors"}


def test_weights_larger_than_memory_are_not_read(
    checkpoint: Path, reads: Reads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = tmp_path / "meminfo"
    monkeypatch.setattr(module, "_MEMORY", memory)
    for text in ("MemTotal:  99999 kB\nMemAvailable:      4 kB\n", None):
        memory.write_text(text) if text else memory.unlink()
        with read_ahead(checkpoint) as readers:
            readers.shutdown()
    assert not reads


def test_a_read_error_is_left_to_the_engine(checkpoint: Path) -> None:
    with read_ahead(checkpoint) as readers:
        (checkpoint / "two.safetensors").unlink()
        readers.shutdown()


def test_reading_stops_when_the_engine_has_started(
    checkpoint: Path, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STREAMS", 1)
    begun, goes_on = threading.Event(), threading.Event()
    read = module._read

    def waiting(path: Path, begin: int, end: int) -> None:
        begun.set()
        goes_on.wait()
        read(path, begin, end)

    monkeypatch.setattr(module, "_read", waiting)
    with read_ahead(checkpoint) as readers:
        begun.wait()
    goes_on.set()
    readers.shutdown()
    assert sum(got for _, got in reads) <= 1300, "one range of four"


def test_vllm_does_not_read_ahead_itself(checkpoint_dir: Path, tmp_path: Path) -> None:
    """It would read the same bytes again in one stream."""
    for gpus in (0, 1):
        command = serve_command(checkpoint_dir, VllmPlan(2048, 8, gpus), tmp_path, tmp_path)
        assert command[command.index("--safetensors-load-strategy") + 1] == "lazy"
