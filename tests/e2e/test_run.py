"""`cosmos-batch run --model` answers with that model, and a running local cloud is not changed."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.cli.local_cloud import start_local_cloud
from cosmos_batch.local.cloud import LocalCloud
from cosmos_batch.local.deploy import deploy
from infra.synth import synthesize
from tests.engines.reasoner.endpoint.conftest import MODEL, Server, completion
from tests.support.deployed_app import configuration, configuration_text


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """Provide a cloud as `local up` leaves it, which ends with these tests."""
    folder = tmp_path_factory.mktemp("standing")
    (folder / "config.json").write_text(configuration_text(folder))
    with start_local_cloud(folder / "home") as cloud:
        deploy(synthesize(configuration(folder), folder / "cdk.out"), cloud)
        yield cloud


def templates(cloud: LocalCloud) -> dict[str, Any]:
    client = cloud.client("cloudformation")
    stacks = [stack["StackName"] for stack in client.describe_stacks()["Stacks"]]
    return {stack: client.get_template(StackName=stack)["TemplateBody"] for stack in stacks}


def typed(standing: LocalCloud, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
        "COSMOS_BATCH_HOME": str(standing.home),
        "COSMOS_BATCH_CONFIG": str(standing.home.parent / "config.json"),
    }
    command = [sys.executable, "-m", "cosmos_batch.cli", "run", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def run(standing: LocalCloud, *arguments: str) -> dict[str, Any]:
    """Run the command and return the document that it prints."""
    answer = typed(standing, *arguments)
    assert answer.returncode == 0, answer.stderr
    document: dict[str, Any] = json.loads(answer.stdout)
    return document


@pytest.mark.slow
@pytest.mark.timeout(900)  # four clouds are started and deployed to
def test_two_runs_with_two_models_and_a_run_with_an_endpoint_are_answered_by_each(
    standing: LocalCloud, picture: Path, tmp_path: Path
) -> None:
    for name in ("mA", "mB"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
    before = templates(standing)
    for name in ("mA", "mB"):
        document = run(standing, str(picture), "--prompt", "What is it?", "--model", str(tmp_path / name))
        assert (document["model"], document["engine"]) == (name, "scripted 1")
    with Server() as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        served.answers = [completion("A cube.")]
        document = run(standing, str(picture), "--prompt", "What is it?", "--endpoint", served.url, "--model", MODEL)
        served.shutdown()
    assert document["result"] == "A cube."
    assert document["engine"] == f"endpoint {served.url}"
    assert templates(standing) == before
    assert standing.client("s3").list_buckets()["Buckets"], "it still answers"
    assert not list((standing.home / "beside").iterdir()), "the clouds of the commands are gone"


def test_a_run_that_names_no_model_is_answered_by_the_standing_cloud(standing: LocalCloud, picture: Path) -> None:
    assert run(standing, str(picture), "--prompt", "What is it?")["model"] == "cosmos-reason2-2b"


def test_a_folder_is_a_run_with_a_plan_a_document_for_each_file_and_one_table(
    standing: LocalCloud, picture: Path, tmp_path: Path
) -> None:
    folder, output = tmp_path / "clips", tmp_path / "answers"
    for name in ("a.png", "deep/b.png"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(picture.read_bytes())
    (folder / "bad.png").write_bytes(b"no picture")
    answer = typed(standing, f"{folder}/", "--prompt", "What is it?", "--output", f"{output}/")
    assert answer.returncode == 1, "one file failed"
    assert "3 files" in answer.stderr and "3 of 3 done (100 %), 1 failed" in answer.stderr
    assert "bad.png:\nerror: InvalidInput:" in answer.stderr
    documents = [Path(line) for line in answer.stdout.splitlines()]
    assert {path.parent.relative_to(output) for path in documents} == {Path(), Path("deep")}
    answers = [json.loads(path.read_text()) for path in documents]
    assert {each["result"] for each in answers} == {"What is it?"}
    assert len({each["batchJobId"] for each in answers}) == 1, "the model was loaded once"
    [table] = output.glob("*.jsonl")
    lines = [json.loads(line) for line in table.read_text().splitlines()]
    assert {line["id"]: "error" in line for line in lines} == {"a.png": False, "bad.png": True, "deep/b.png": False}

    again = typed(standing, f"{folder}/", "--prompt", "What is it?", "--output", f"{output}/")
    assert "3 of 3 done (100 %), 1 failed, 3 answered before; no cost on a local cloud" in again.stderr, again.stderr
