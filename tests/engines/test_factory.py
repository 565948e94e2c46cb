"""Creating the engine that a configuration names, on machines with and without GPUs."""

from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from cosmos_batch.catalogue.engines import AUTO, ENGINES, GENERATOR_ABILITIES
from cosmos_batch.contract.entries import GeneratorEntry, ReasonerEntry
from cosmos_batch.contract.error import Failure
from cosmos_batch.engines import factory
from tests.support.real_vllm import needs_vllm


@pytest.mark.parametrize(
    ("has_gpu", "has_vllm", "best"),
    [
        (True, True, "vllm"),
        (True, False, "transformers"),
        (False, True, "transformers"),
        (False, False, "transformers"),
    ],
)
def test_auto_is_vllm_on_a_machine_with_a_gpu_and_vllm(
    devices: Path, monkeypatch: pytest.MonkeyPatch, has_gpu: bool, has_vllm: bool, best: str
) -> None:
    if not has_gpu:
        (devices / "nvidiactl").unlink()
    monkeypatch.setattr(factory, "find_spec", lambda name: object() if has_vllm and name == "vllm" else None)
    assert factory.default_reasoner() == best
    scripted = replace(ENGINES["vllm"], class_path="tests.support.scripted_engine:ScriptedEngine")
    monkeypatch.setitem(ENGINES, "vllm", scripted)
    assert factory.create_engine("auto").name.partition(" ")[0] == {"vllm": "scripted"}.get(best, best)


def test_the_default_engine_is_auto() -> None:
    assert ReasonerEntry().engine == AUTO
    for name in ENGINES.keys() - GENERATOR_ABILITIES.keys():
        ReasonerEntry(engine=name)
    assert GeneratorEntry().engine == AUTO


def test_vllm_that_is_not_installed_is_an_error_with_a_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def nothing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("cosmos_batch.engines.reasoner.vllm.engine.version", nothing)
    with pytest.raises(Failure) as raised:
        factory.create_engine("vllm").load(tmp_path)
    error = raised.value.error
    assert "vllm is not installed here" in error.message and not error.retryable
    assert "make vllm" in error.remedy and "'auto'" in error.remedy


@needs_vllm
def test_vllm_by_name_needs_no_gpu() -> None:
    """`auto` would choose Transformers here."""
    assert factory.create_engine("vllm").name == f"vllm {version('vllm')}"


def test_a_missing_engine_fails_when_it_loads(tmp_path: Path) -> None:
    with pytest.raises(Failure) as raised:
        factory.create_engine("vllm-omni").load(tmp_path / "Cosmos3-Nano")
    assert raised.value.error.code == "EngineFailed" and not raised.value.error.retryable
    assert "'vllm-omni'" in raised.value.error.message and "engine" in raised.value.error.remedy
