"""`generate` on this machine: which engine, server and guardrails it takes, and the demonstration."""

import json
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.cli import configuration
from cosmos_batch.cli.commands import demo_generate, generate
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.generation_request import GenerationRequest
from cosmos_batch.cli.main import main
from cosmos_batch.contract.generation.parameters import GenerationParameters
from cosmos_batch.planning.configuration import load_config
from cosmos_batch.planning.deployment import EnabledPipeline, enabled_pipelines
from tests.cli.commands.generate.conftest import NANO
from tests.cli.conftest import PIPELINE


@pytest.mark.parametrize("changes", [{}, {"model": "org/name"}])
def test_on_this_machine_the_generator_is_enabled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str]
) -> None:
    monkeypatch.setenv("COSMOS_BATCH_HOME", str(tmp_path))
    request = GenerationRequest("x", None, GenerationParameters(guardrails=False))
    config = load_config(generate.config_file(request, changes))
    [nano] = [entry for entry in enabled_pipelines(config) if entry.pipeline.id == NANO]
    assert (nano.engine, nano.model) == ("diffusers", changes.get("model", "nvidia/Cosmos3-Nano"))
    assert nano.models == [nano.model], "guardrails that nobody asks for are not loaded"
    assert PIPELINE in [entry.pipeline.id for entry in enabled_pipelines(config)], "what was there stays"


@pytest.mark.parametrize(("settings", "engine"), [({}, "diffusers"), ({"engine": "phyai"}, "phyai")])
def test_on_this_machine_auto_is_an_engine_that_is_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], engine: str
) -> None:
    monkeypatch.setenv("COSMOS_BATCH_HOME", str(tmp_path))
    entry = {"enabled": True, "guardrails": False, **settings}
    nvidia = {"enabled": True, "modelsOmni": {"nano16B": entry}}
    configured = tmp_path / "config.json"
    configured.write_text(json.dumps({"app": {"pipelines": {"useNvidiaCosmos3": nvidia}}}))
    monkeypatch.setattr(configuration, "CONFIG", configured)
    config = load_config(generate.config_file(GenerationRequest("x", None, GenerationParameters(guardrails=False)), {}))
    assert [entry.engine for entry in enabled_pipelines(config)] == [engine]


def on_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, **parameters: Any) -> EnabledPipeline:
    """Return the pipeline of a request where only this variable is set."""
    monkeypatch.setenv("COSMOS_BATCH_HOME", str(tmp_path))
    monkeypatch.setenv(variable, "http://localhost:8000/")
    request, changes = generate.on_a_server(GenerationRequest("x", None, GenerationParameters(**parameters)))
    config = load_config(generate.config_file(request, changes))
    [enabled] = [entry for entry in enabled_pipelines(config) if entry.pipeline.id == request.pipeline]
    return enabled


@pytest.mark.parametrize(
    ("variable", "named"),
    [
        ("COSMOS3_VLLM_NANO_BASE_URL", NANO),
        ("COSMOS3_VLLM_BASE_URL", NANO),
        ("COSMOS3_VLLM_SUPER_BASE_URL", "cosmos3-super"),
    ],
)
@pytest.mark.parametrize("guardrails", [True, False])
def test_each_of_nvidias_variables_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, named: str, guardrails: bool
) -> None:
    enabled = on_a_server(tmp_path, monkeypatch, variable, guardrails=guardrails)
    assert (enabled.pipeline.id, enabled.engine) == (named, "endpoint")
    assert enabled.endpoint is not None and enabled.endpoint.url == "http://localhost:8000/v1"
    assert enabled.serving is not None and enabled.serving.guardrails is guardrails


def test_no_job_is_sent_to_a_server_with_unknown_guardrails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CliError, match="does not tell") as raised:
        on_a_server(tmp_path, monkeypatch, "COSMOS3_VLLM_SUPER_BASE_URL")
    assert "--no-guardrails" in raised.value.remedy


def test_requests_that_no_server_can_do_and_named_pipelines_use_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COSMOS3_VLLM_SUPER_BASE_URL", "http://localhost:8001")
    for request in (
        GenerationRequest("x", None, GenerationParameters(mode="transfer")),
        GenerationRequest("x", None, GenerationParameters(), pipeline=NANO),
    ):
        assert generate.on_a_server(request) == (request, {})


def test_guardrails_that_are_not_installed_are_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The environment of the tests has no guardrails installed."""
    monkeypatch.setenv("COSMOS_BATCH_HOME", str(tmp_path))
    monkeypatch.setattr(
        "cosmos_batch.cli.local_deployment._own_deployment", lambda *_: pytest.fail("something started")
    )
    assert main(["generate", "--prompt", "x", "--model", "nvidia/Cosmos3-Nano"]) == 2
    printed = capsys.readouterr().err
    assert "cosmos_guardrail is not installed" in printed and "--no-guardrails" in printed and "pip install" in printed


@pytest.mark.parametrize("name", ["there", "asked without"])
def test_guardrails_that_are_installed_or_not_wanted_are_not_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COSMOS_BATCH_HOME", str(tmp_path))
    if name == "there":
        monkeypatch.setattr(generate, "find_spec", lambda _: "found")
    request = GenerationRequest("x", None, GenerationParameters(guardrails=False if name == "asked without" else None))
    assert generate.config_file(request, {}) != configuration.CONFIG


def test_the_demo_brings_a_model_with_random_weights_and_no_guardrails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COSMOS_BATCH_HOME", str(tmp_path))
    checkpoints: list[Any] = []
    with ThreadPool(1) as pool:
        config = load_config(
            demo_generate._config_file(GenerationRequest("x", None, demo_generate.PARAMETERS), pool, checkpoints)
        )
        built = [checkpoint.get() for checkpoint in checkpoints]
    assert capsys.readouterr().err.splitlines() == [
        "nvidia/Cosmos3-Nano is not on this machine: a tiny model with RANDOM weights takes its place, so the video is "
        "noise.",
        "NVIDIA's: cosmos-batch generate --model nvidia/Cosmos3-Nano --prompt TEXT",
    ]
    [nano] = [entry for entry in enabled_pipelines(config) if entry.pipeline.id == NANO]
    assert nano.serving is not None and not nano.serving.guardrails
    assert built == [Path(nano.model)] and (built[0] / "model_index.json").is_file()


@pytest.mark.parametrize("on_a_server", [False, True])
def test_guardrails_that_the_configuration_requires_are_not_switched_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_a_server: bool
) -> None:
    monkeypatch.setenv("COSMOS_BATCH_HOME", str(tmp_path))
    entry = {"enabled": True, "guardrails": "required", "maxResolution": "480p"}
    models = {"useNvidiaCosmos3": {"enabled": True, "modelsOmni": {"nano16B": entry}}}
    (tmp_path / "config.json").write_text(json.dumps({"app": {"pipelines": models}}))
    monkeypatch.setattr(configuration, "CONFIG", tmp_path / "config.json")
    request = GenerationRequest("x", None, GenerationParameters(guardrails=False))
    changes = {"engine": "endpoint", "endpoint": {"url": "http://h:1/v1"}, "guardrails": False} if on_a_server else {}
    with pytest.raises(CliError, match=f"config.json requires guardrails of {NANO}"):
        generate.config_file(request, changes)
