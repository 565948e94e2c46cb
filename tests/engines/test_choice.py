"""Which engine a name stands for, on which machine."""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from cosmos_batch import engines
from cosmos_batch.contract import Failure
from cosmos_batch.contract.entries import GeneratorEntry, ReasonerEntry
from cosmos_batch.engines import gpus, vllm_command
from tests.real_vllm import needs_vllm


@pytest.fixture
def devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a machine's devices: it has two GPUs."""
    monkeypatch.setattr(gpus, "DEVICES", tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for name in ("nvidiactl", "nvidia0", "nvidia1", "nvidia-uvm"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(("chosen", "count"), [(None, 2), ("1", 1), ("0,1", 2), ("", 0), ("-1", 0)])
def test_the_gpus_of_a_process(devices: Path, monkeypatch: pytest.MonkeyPatch, chosen: str | None, count: int) -> None:
    if chosen is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    assert gpus.gpus_here() == count


def test_without_a_driver_there_is_none(devices: Path) -> None:
    (devices / "nvidiactl").unlink()
    assert gpus.gpus_here() == 0


@pytest.mark.parametrize(
    ("has_gpu", "has_vllm", "best"),
    [
        (True, True, "vllm"),
        (True, False, "transformers"),
        (False, True, "transformers"),
        (False, False, "transformers"),
    ],
)
def test_auto_is_vllm_where_a_gpu_and_vllm_are(
    devices: Path, monkeypatch: pytest.MonkeyPatch, has_gpu: bool, has_vllm: bool, best: str
) -> None:
    if not has_gpu:
        (devices / "nvidiactl").unlink()
    monkeypatch.setattr(engines, "find_spec", lambda name: object() if has_vllm and name == "vllm" else None)
    assert engines.best_here() == best
    monkeypatch.setitem(engines.ENGINES, "vllm", "tests.e2e.scripted_engine:ScriptedEngine")
    assert engines.create("auto").name.partition(" ")[0] == {"vllm": "scripted"}.get(best, best)


def test_a_reasoner_is_auto_unless_it_is_told() -> None:
    assert ReasonerEntry().engine == engines.AUTO
    for name in engines.ENGINES:
        ReasonerEntry(engine=name)
    assert GeneratorEntry().engine == "diffusers"


def test_vllm_where_it_is_not_installed_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def nothing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("cosmos_batch.engines.vllm.version", nothing)
    with pytest.raises(Failure) as raised:
        engines.create("vllm").load(tmp_path)
    error = raised.value.error
    assert "vllm is not installed here" in error.message and not error.retryable
    assert "make vllm" in error.remedy and "'auto'" in error.remedy


@needs_vllm
def test_vllm_is_taken_where_it_is_asked_for() -> None:
    """Also without a GPU, where `auto` would not."""
    assert engines.create("vllm").name == f"vllm {version('vllm')}"


@pytest.mark.parametrize(("gpus_here", "shared"), [(0, True), (1, True), (2, True), (4, True), (3, False), (8, False)])
def test_gpus_share_attention_heads_evenly(checkpoint_dir: Path, gpus_here: int, shared: bool) -> None:
    """The tiny checkpoint has four."""
    reason = vllm_command.uneven(checkpoint_dir, gpus_here)
    assert (reason is None) == shared
    assert shared or (reason is not None and "4 attention heads" in reason and f"{gpus_here} GPUs" in reason)
