"""What arrives in S3 and Step Functions."""

import json
from email.header import decode_header, make_header
from pathlib import Path

import pytest

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.main import main
from cosmos_batch.cli.submit import start, upload
from cosmos_batch.contract.s3 import execution_name, parse_uri
from tests.cli.conftest import MACHINE, PIPELINE, FakeStepFunctions


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    path = tmp_path / "my clip 🎬.mp4"
    path.write_bytes(b"content")
    return path


def test_an_upload_carries_its_question(deployment: Deployment, clip: Path) -> None:
    submitted = upload(deployment, clip, "何が起きる?\n🎬", "cosmos-reason2-8b")
    bucket, key = parse_uri(submitted.input)
    head = deployment.clients("s3").head_object(Bucket=bucket, Key=key)
    assert key.endswith("/my clip 🎬.mp4")
    assert str(make_header(decode_header(head["Metadata"]["cosmos_reason_prompt"]))) == "何が起きる?\n🎬"
    assert head["Metadata"]["cosmos_pipeline"] == "cosmos-reason2-8b"


def test_the_id_is_the_name_that_the_upload_lambda_gives(deployment: Deployment, clip: Path) -> None:
    submitted = upload(deployment, clip, "What?", PIPELINE)
    bucket, key = parse_uri(submitted.input)
    version = deployment.clients("s3").head_object(Bucket=bucket, Key=key)["VersionId"]
    assert submitted.job_id == execution_name(PIPELINE, bucket, key, version)


def test_one_file_twice_is_two_inputs(deployment: Deployment, clip: Path) -> None:
    first, second = (upload(deployment, clip, "What?", PIPELINE) for _ in range(2))
    assert first.input != second.input


def test_a_long_question_goes_into_a_sidecar_that_comes_first(
    deployment: Deployment, clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3, written = deployment.clients("s3"), []
    s3.meta.events.register("before-call.s3.PutObject", lambda params, **_: written.append(params["url_path"]))
    submitted = upload(deployment, clip, "long " * 1000, PIPELINE)
    bucket, key = parse_uri(submitted.input)
    body = s3.get_object(Bucket=bucket, Key=f"{key}.metadata.json")["Body"].read()
    assert json.loads(body)["COSMOS_REASON_PROMPT"] == "long " * 1000
    assert [path.endswith(".metadata.json") for path in written] == [True, False]
    assert s3.head_object(Bucket=bucket, Key=key)["Metadata"] == {}


def test_a_file_in_s3_starts_the_state_machine(deployment: Deployment, stepfunctions: FakeStepFunctions) -> None:
    submitted = start(deployment, "s3://assets/a b.mp4", "What?", PIPELINE)
    [started] = stepfunctions.started
    assert started["stateMachineArn"] == MACHINE
    assert started["name"] == submitted.job_id
    assert json.loads(started["input"]) == {"pipeline": PIPELINE, "input": "s3://assets/a b.mp4", "prompt": "What?"}


def test_submit_prints_an_id_for_each(
    deployment: Deployment,
    stepfunctions: FakeStepFunctions,
    clip: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(deployments, "find", lambda: deployment)
    assert main(["submit", "--json", str(clip), "s3://assets/b.mp4"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["input"].rpartition("/")[2] for line in lines] == [clip.name, "b.mp4"]
    assert lines[1]["id"] == stepfunctions.started[0]["name"]


def test_nothing_is_sent_when_one_input_is_wrong(
    deployment: Deployment, clip: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(deployments, "find", lambda: deployment)
    assert main(["submit", str(clip), str(clip.parent / "missing.mp4")]) == 1
    assert "missing.mp4 does not exist" in capsys.readouterr().err
    assert deployment.clients("s3").list_objects_v2(Bucket="assets")["KeyCount"] == 0
