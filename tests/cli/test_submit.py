"""What arrives in S3 and Step Functions."""

import json
from email.header import decode_header, make_header
from pathlib import Path

import pytest

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.main import main
from cosmos_batch.cli.options import OPTIONS as OPTIONS_OF_MAIN
from cosmos_batch.cli.question import Question
from cosmos_batch.cli.submit import start, upload
from cosmos_batch.contract import Request
from cosmos_batch.contract.parameters import NAMES
from cosmos_batch.contract.s3 import OBJECT_MARKER, execution_name, parse_uri
from tests.cli.conftest import MACHINE, PIPELINE, FakeStepFunctions


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    path = tmp_path / "my clip 🎬.mp4"
    path.write_bytes(b"content")
    return path


def test_an_upload_carries_its_question(deployment: Deployment, clip: Path) -> None:
    submitted = upload(deployment, clip, Question("何が起きる?\n🎬"), "cosmos-reason2-8b")
    bucket, key = parse_uri(submitted.input)
    head = deployment.clients("s3").head_object(Bucket=bucket, Key=key)
    assert key.endswith("/my clip 🎬.mp4")
    assert str(make_header(decode_header(head["Metadata"]["cosmos_reason_prompt"]))) == "何が起きる?\n🎬"
    assert head["Metadata"]["cosmos_pipeline"] == "cosmos-reason2-8b"


def test_the_id_is_the_name_that_the_upload_lambda_gives(deployment: Deployment, clip: Path) -> None:
    submitted = upload(deployment, clip, Question("What?"), PIPELINE)
    bucket, key = parse_uri(submitted.input)
    version = deployment.clients("s3").head_object(Bucket=bucket, Key=key)["VersionId"]
    assert submitted.job_id == execution_name(PIPELINE, bucket, key, version)


def test_one_file_twice_is_two_inputs(deployment: Deployment, clip: Path) -> None:
    first, second = (upload(deployment, clip, Question("What?"), PIPELINE) for _ in range(2))
    assert first.input != second.input


def test_a_long_question_goes_into_a_sidecar_that_comes_first(
    deployment: Deployment, clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3, written = deployment.clients("s3"), []
    s3.meta.events.register("before-call.s3.PutObject", lambda params, **_: written.append(params["url_path"]))
    submitted = upload(deployment, clip, Question("long " * 1000), PIPELINE)
    bucket, key = parse_uri(submitted.input)
    body = s3.get_object(Bucket=bucket, Key=f"{key}.metadata.json")["Body"].read()
    assert json.loads(body)["COSMOS_REASON_PROMPT"] == "long " * 1000
    assert [path.endswith(".metadata.json") for path in written] == [True, False]
    assert s3.head_object(Bucket=bucket, Key=key)["Metadata"] == {}


def test_a_file_in_s3_starts_the_state_machine(deployment: Deployment, stepfunctions: FakeStepFunctions) -> None:
    submitted = start(deployment, Request(pipeline=PIPELINE, input="s3://assets/a b.mp4", prompt="What?"))
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


OPTIONS = ["--task", "2d-grounding", "--fps", "2", "--no-reasoning", "--start", "1.5", "--system-prompt", "Be brief."]


def test_how_to_answer_goes_with_a_file(
    deployment: Deployment, stepfunctions: FakeStepFunctions, clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployments, "find", lambda: deployment)
    schema = clip.with_name("schema.json")
    schema.write_text('{"type": "array"}')
    options = [*OPTIONS, "--json-schema", str(schema)]
    assert main(["submit", str(clip), "s3://assets/b.mp4", "--prompt", "the arm", *options]) == 0
    [uploaded] = deployment.clients("s3").list_objects_v2(Bucket="assets")["Contents"]
    said = deployment.clients("s3").head_object(Bucket="assets", Key=uploaded["Key"])["Metadata"]
    assert said == {
        "cosmos_reason_prompt": "the arm",
        "cosmos_reason_system_prompt": "Be brief.",
        "cosmos_pipeline": PIPELINE,
        "cosmos_reason_task": "2d-grounding",
        "cosmos_reason_fps": "2.0",
        "cosmos_reason_reasoning": "false",
        "cosmos_reason_start": "1.5",
        "cosmos_reason_json_schema": '{"type": "array"}',
    }
    assert json.loads(stepfunctions.started[0]["input"]) == {
        "pipeline": PIPELINE,
        "input": "s3://assets/b.mp4",
        "prompt": "the arm",
        "systemPrompt": "Be brief.",
        "parameters": {
            "task": "2d-grounding", "reasoning": False, "fps": 2, "start": 1.5, "jsonSchema": {"type": "array"},
        },
    }  # fmt: skip


def test_a_task_may_stand_without_a_prompt(
    deployment: Deployment, stepfunctions: FakeStepFunctions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployments, "find", lambda: deployment)
    assert main(["submit", "s3://assets/b.mp4", "--task", "next-action"]) == 0
    assert "prompt" not in json.loads(stepfunctions.started[0]["input"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--fps", "1e9"], "fps: '1e9': Input should be less than or equal to 60"),
        (["--fps", "fast"], "fps: 'fast': Input should be a valid number"),
        (["--start", "5", "--end", "4"], "end: '4': must be later than start, 5"),
        (["--task", "sing"], "task: 'sing': Input should be 'caption'"),
        (["--json-schema", "/no/such.json"], "--json-schema: /no/such.json cannot be read"),
        (["--json-schema", __file__], "jsonSchema: "),
    ],
)
def test_a_wrong_option_is_named_before_anything_is_sent(
    deployment: Deployment, stepfunctions: FakeStepFunctions, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], options: list[str], said: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(deployments, "find", lambda: deployment)
    assert main(["submit", "s3://assets/b.mp4", *options]) == 1
    assert said in capsys.readouterr().err
    assert stepfunctions.started == []


def test_further_files_are_uploaded_once_and_start_nothing(
    deployment: Deployment, stepfunctions: FakeStepFunctions, clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployments, "find", lambda: deployment)
    s3, after = deployment.clients("s3"), clip.with_name("after.png")
    after.write_bytes(b"another")
    more = ["--with", str(after), "--with", "s3://assets/c.png"]
    assert main(["submit", "s3://assets/b.mp4", str(clip), *more]) == 0
    keys = [one["Key"] for one in s3.list_objects_v2(Bucket="assets")["Contents"]]
    said = {key.rpartition("/")[2]: s3.head_object(Bucket="assets", Key=key)["Metadata"] for key in keys}
    assert said.keys() == {"after.png", clip.name}
    assert OBJECT_MARKER in said["after.png"], "so that `upload` leaves it alone"
    uris = [f"s3://assets/{next(key for key in keys if key.endswith('after.png'))}", "s3://assets/c.png"]
    assert json.loads(stepfunctions.started[0]["input"])["parameters"] == {"moreInputs": uris}
    assert json.loads(said[clip.name]["cosmos_reason_more_inputs"]) == uris


def test_a_further_file_that_is_missing_is_named_first(
    deployment: Deployment, clip: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(deployments, "find", lambda: deployment)
    assert main(["submit", str(clip), "--with", "nowhere.png"]) == 1
    assert "nowhere.png does not exist" in capsys.readouterr().err
    assert deployment.clients("s3").list_objects_v2(Bucket="assets")["KeyCount"] == 0


def test_every_parameter_is_an_option() -> None:
    assert {name for name, _, _ in OPTIONS_OF_MAIN} | {"reasoning", "more_inputs"} == set(NAMES.values())
