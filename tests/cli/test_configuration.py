"""Choosing the configuration that is deployed on this machine, and synthesizing it again when it has changed."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.catalogue.pipelines import PIPELINES
from cosmos_batch.cli import configuration, synthesis
from cosmos_batch.cli.errors import CliError, WrongCall
from cosmos_batch.planning.configuration import load_config


@pytest.fixture
def config_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cosmos = {"enabled": True, "huggingFaceToken": "hf_secret", "modelsReason": {"reason8B": {"enabled": True}}}
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"app": {"pipelines": {"useNvidiaCosmos": cosmos}}}))
    monkeypatch.setattr(configuration, "CONFIG", path)
    return path


def test_only_the_pipeline_asked_for_gets_the_model(
    config_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COSMOS_BATCH_HOME", str(tmp_path))
    eight = next(pipeline for pipeline in PIPELINES if pipeline.id == "cosmos-reason2-8b")
    changed = configuration.with_entry(eight, {"model": "/models/mine"})
    cosmos = load_config(changed).cosmos
    assert cosmos.models_reason.reason_8b.model == "/models/mine"
    assert cosmos.models_reason.reason_2b.model is None
    assert cosmos.hugging_face_token.get_secret_value() == "hf_secret"
    assert stat.S_IMODE(changed.stat().st_mode) == 0o600


def test_the_smallest_enabled_pipeline_is_the_default(config_file: Path) -> None:
    config = load_config(config_file)
    assert configuration.enabled_pipeline(config, None).pipeline.id == "cosmos-reason2-8b"
    with pytest.raises(CliError, match="cosmos-reason2-2b"):
        configuration.enabled_pipeline(config, "cosmos-reason2-2b")


def test_a_model_is_an_id_or_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checkpoint").mkdir()
    with pytest.raises(CliError, match="no checkpoint"):
        configuration.checked_model("checkpoint")
    (tmp_path / "checkpoint" / "config.json").write_text("{}")
    assert configuration.checked_model("checkpoint") == str(tmp_path / "checkpoint")
    assert configuration.checked_model("nvidia/Cosmos-Reason2-2B") == "nvidia/Cosmos-Reason2-2B"
    with pytest.raises(CliError, match="no folder"):
        configuration.checked_model("./nowhere")


@pytest.mark.parametrize("name", ["nowhere/", "Cosmos-Reason2-2B", "folder of mine", "org/name/more", "org/name@"])
def test_a_model_of_another_form_is_refused_in_words(name: str) -> None:
    with pytest.raises(WrongCall, match="neither a checkpoint's folder nor a Hugging Face id") as refused:
        configuration.checked_model(name)
    assert "nvidia/Cosmos-Reason2-2B" in refused.value.remedy


class Pool:
    """A process pool that calls the function at once, and counts the calls."""

    def __init__(self) -> None:
        self.calls = 0

    def apply_async(self, function: Any, arguments: tuple[Any, ...]) -> Any:
        self.calls += 1
        function(*arguments)
        return type("Result", (), {"get": staticmethod(lambda: None)})


def test_an_assembly_is_made_again_when_something_changed(
    config_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = tmp_path / "sources"
    (sources / "infra").mkdir(parents=True)
    (sources / "infra" / "stack.py").write_text("one")
    monkeypatch.setattr(synthesis, "ROOT", sources)
    monkeypatch.setattr(synthesis, "_synthesize", lambda _, folder: folder.mkdir(parents=True))
    pool: Any = Pool()

    def assembly() -> Path:
        return synthesis.assembly(config_file, tmp_path / "home", pool).wait()

    first = assembly()
    assert assembly() == first
    assert pool.calls == 1
    (sources / "infra" / "stack.py").write_text("two")
    second = assembly()
    assert second != first
    config_file.write_text(config_file.read_text().replace("hf_secret", "hf_other"))
    assert assembly() not in (first, second)
    assert pool.calls == 3


def test_old_assemblies_are_removed(tmp_path: Path) -> None:
    for age in range(6):
        (tmp_path / f"assembly-{age}").mkdir()
    synthesis._prune(tmp_path)
    assert len(list(tmp_path.iterdir())) == synthesis.KEPT
