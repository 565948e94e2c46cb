"""`submit` uploads files to S3 and starts executions in Step Functions."""

import io
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli import model_access
from cosmos_batch.cli.commands.submit import Submitted, start, submit_files
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.main import main
from cosmos_batch.cli.options import REASONER_OPTIONS
from cosmos_batch.cli.reasoner_request import ReasonerRequest
from cosmos_batch.cli.runs.stored_run import StoredRun
from cosmos_batch.cli.uploads import Uploads
from cosmos_batch.contract.error import Error
from cosmos_batch.contract.parameters import NAMES
from cosmos_batch.contract.request import Request
from cosmos_batch.contract.s3 import OBJECT_MARKER, parse_uri
from tests.cli.conftest import MACHINE, PIPELINE, FakeStepFunctions
from tests.support.runs import read_items


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    path = tmp_path / "my clip 🎬.mp4"
    path.write_bytes(b"content")
    return path


@pytest.fixture
def objects(deployment: Deployment) -> None:
    """Upload the objects that requests name."""
    for key in ("b.mp4", "c.png"):
        deployment.clients("s3").put_object(Bucket="assets", Key=key, Body=b"content")


@pytest.fixture
def uploads(deployment: Deployment) -> Uploads:
    return Uploads(deployment)


def request_of(stepfunctions: FakeStepFunctions, number: int = -1) -> dict[str, Any]:
    request: dict[str, Any] = json.loads(stepfunctions.started[number]["input"])
    return request


def ask(deployment: Deployment, clip: Path, question: ReasonerRequest, pipeline: str = PIPELINE) -> Submitted:
    [submitted] = submit_files(deployment, [clip], question, pipeline)
    return submitted


def test_a_file_is_uploaded_and_its_job_started(
    deployment: Deployment, stepfunctions: FakeStepFunctions, clip: Path
) -> None:
    submitted = ask(deployment, clip, ReasonerRequest("何が起きる?\n🎬"), "cosmos-reason2-8b")
    bucket, key = parse_uri(submitted.input)
    assert (bucket, key.rpartition("/")[2]) == ("assets", "my clip 🎬.mp4")
    body = deployment.clients("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    assert body == clip.read_bytes()
    [started] = stepfunctions.started
    assert (started["stateMachineArn"], started["name"]) == (MACHINE, submitted.job_id)
    expected = {"pipeline": "cosmos-reason2-8b", "input": submitted.input, "prompt": "何が起きる?\n🎬"}
    assert request_of(stepfunctions) == expected


def test_no_trigger_starts_a_second_run_of_an_uploaded_file(deployment: Deployment, clip: Path) -> None:
    bucket, key = parse_uri(ask(deployment, clip, ReasonerRequest("What?")).input)
    metadata = deployment.clients("s3").head_object(Bucket=bucket, Key=key)["Metadata"]
    assert OBJECT_MARKER in metadata, "by which `upload` knows what is ours"


def test_one_file_twice_is_two_inputs(deployment: Deployment, clip: Path) -> None:
    first, second = (ask(deployment, clip, ReasonerRequest("What?")) for _ in range(2))
    assert first.input != second.input


def test_a_long_prompt_lies_in_s3(deployment: Deployment, stepfunctions: FakeStepFunctions, clip: Path) -> None:
    ask(deployment, clip, ReasonerRequest("long " * 4000))
    request = request_of(stepfunctions)
    assert "prompt" not in request
    bucket, key = parse_uri(request["promptUri"])
    assert deployment.clients("s3").get_object(Bucket=bucket, Key=key)["Body"].read().decode() == "long " * 4000


def test_an_adopted_bucket_is_written_below_its_prefix_and_needs_no_versions(
    deployment: Deployment, stepfunctions: FakeStepFunctions, clip: Path
) -> None:
    deployment.clients("s3").create_bucket(Bucket="videos")
    adopted = replace(deployment, asset_roots=["videos/inbox/"])
    submitted = ask(adopted, clip, ReasonerRequest("What?"))
    assert submitted.input.startswith("s3://videos/inbox/uploads/")
    assert request_of(stepfunctions)["input"] == submitted.input
    assert Uploads(adopted).new_folder().startswith("s3://videos/inbox/uploads/")


@pytest.fixture
def closed(deployment: Deployment) -> Iterator[Deployment]:
    """Provide a deployment with two buckets: this person may not write to the first, and only below a prefix of the
    second.
    """
    s3 = deployment.clients("s3")
    s3.create_bucket(Bucket="videos")

    def refuse(params: dict[str, Any], **_: object) -> None:
        if params["context"]["input_params"]["Bucket"] == "assets":
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "Access Denied"}}, "PutObject")

    s3.meta.events.register("before-call.s3.PutObject", refuse)
    yield replace(deployment, asset_roots=["assets", "videos/inbox/"])
    s3.meta.events.unregister("before-call.s3.PutObject", refuse)


def test_where_this_person_may_not_upload_the_next_bucket_is_taken(closed: Deployment, clip: Path) -> None:
    uploads = Uploads(closed)
    uris = [uploads.put(clip) for _ in range(2)]
    assert all(uri.startswith("s3://videos/inbox/uploads/") for uri in uris)
    bucket, key = parse_uri(uris[0])
    assert closed.clients("s3").get_object(Bucket=bucket, Key=key)["Body"].read() == clip.read_bytes()
    assert uploads.new_folder().startswith("s3://videos/inbox/")


def test_where_this_person_may_upload_nowhere_no_id_is_printed(
    closed: Deployment,
    stepfunctions: FakeStepFunctions,
    clip: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(deployments, "find", lambda: replace(closed, asset_roots=["assets"]))
    assert main(["submit", str(clip)]) == 1
    printed = capsys.readouterr()
    assert printed.out == "" and stepfunctions.started == []
    assert "You may not upload to assets." in printed.err


def test_an_id_is_printed_only_when_its_job_is_started(
    deployment: Deployment,
    stepfunctions: FakeStepFunctions,
    clip: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(**_: Any) -> None:
        raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "StartExecution")

    monkeypatch.setattr(deployments, "find", lambda: deployment)
    monkeypatch.setattr(stepfunctions, "start_execution", refuse)
    assert main(["submit", str(clip)]) == 1
    printed = capsys.readouterr()
    assert printed.out == "" and "StartExecution" in printed.err


def test_submit_says_at_once_that_no_worker_can_serve(
    deployment: Deployment,
    clip: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(deployments, "find", lambda: deployment)
    workers = deployment.workers(PIPELINE)
    workers.started("w")
    workers.ended("w", Error(code="ModelUnavailable", message="No token is set.", remedy="Set one.", retryable=True))
    assert main(["submit", str(clip)]) == 0
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 1, "the id alone"
    assert f"{PIPELINE}: no worker can serve: No token is set. Set one." in printed.err


def test_a_file_in_s3_starts_the_state_machine(deployment: Deployment, stepfunctions: FakeStepFunctions) -> None:
    submitted = start(deployment, Request(pipeline=PIPELINE, input="s3://assets/a b.mp4", prompt="What?"))
    [started] = stepfunctions.started
    assert started["stateMachineArn"] == MACHINE
    assert started["name"] == submitted.job_id
    assert json.loads(started["input"]) == {"pipeline": PIPELINE, "input": "s3://assets/a b.mp4", "prompt": "What?"}


def test_one_file_is_a_job(
    deployment: Deployment,
    stepfunctions: FakeStepFunctions,
    clip: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(deployments, "find", lambda: deployment)
    assert main(["submit", "--json", str(clip)]) == 0
    printed, [started] = json.loads(capsys.readouterr().out), stepfunctions.started
    assert printed["id"] == started["name"] and printed["input"].rpartition("/")[2] == clip.name


@pytest.mark.usefixtures("objects")
@pytest.mark.parametrize(
    ("names", "ids"),
    [
        (["clip", "s3://assets/b.mp4"], ["b.mp4", "my clip 🎬.mp4"]),
        (["folder"], ["my clip 🎬.mp4"]),
        (["s3://assets/"], ["b.mp4", "c.png"]),
    ],
)
def test_several_files_a_folder_and_a_prefix_are_a_run(
    names: list[str], ids: list[str], deployment: Deployment, stepfunctions: FakeStepFunctions, clip: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(deployments, "find", lambda: deployment)
    places = {"clip": str(clip), "folder": str(clip.parent)}
    assert main(["submit", *(places.get(name, name) for name in names), "--prompt", "Cars?", "--fps", "2"]) == 0
    run, [started] = capsys.readouterr().out.strip(), stepfunctions.started
    assert json.loads(started["input"]) == {"run": {"id": run}}
    s3 = deployment.clients("s3")
    assert sorted(item.id for item in read_items(s3, "state", run)) == ids
    request = StoredRun(s3, "state", run).request()
    assert (request.prompt, request.parameters.fps, request.pipelines) == ("Cars?", 2, [PIPELINE])


@pytest.mark.usefixtures("objects")
def test_a_person_at_a_terminal_is_asked_before_a_run_is_started(
    deployment: Deployment, stepfunctions: FakeStepFunctions, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(deployments, "find", lambda: deployment)
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    assert main(["submit", "s3://assets/"]) == 130 and stepfunctions.started == []
    assert capsys.readouterr().err.endswith("Nothing was started.\n")
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    assert main(["submit", "s3://assets/"]) == 0 and len(stepfunctions.started) == 1


def test_nothing_is_sent_when_one_input_is_wrong(
    deployment: Deployment, clip: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(deployments, "find", lambda: deployment)
    assert main(["submit", str(clip), str(clip.parent / "missing.mp4")]) == 2
    assert "missing.mp4 does not exist" in capsys.readouterr().err
    assert deployment.clients("s3").list_objects_v2(Bucket="assets")["KeyCount"] == 0


OPTIONS = ["--task", "2d-grounding", "--fps", "2", "--no-reasoning", "--start", "1.5", "--system-prompt", "Be brief."]


@pytest.mark.usefixtures("objects")
def test_how_to_answer_goes_with_a_file(
    deployment: Deployment, stepfunctions: FakeStepFunctions, clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployments, "find", lambda: deployment)
    schema = clip.with_name("schema.json")
    schema.write_text('{"type": "array"}')
    options = [*OPTIONS, "--json-schema", str(schema)]
    for file in (str(clip), "s3://assets/b.mp4"):
        assert main(["submit", file, "--prompt", "the arm", *options]) == 0
    of_this_machine, in_s3 = (request_of(stepfunctions, number) for number in (0, 1))
    assert of_this_machine == {**in_s3, "input": of_this_machine["input"]}
    assert in_s3 == {
        "pipeline": PIPELINE,
        "input": "s3://assets/b.mp4",
        "prompt": "the arm",
        "systemPrompt": "Be brief.",
        "parameters": {
            "task": "2d-grounding", "reasoning": False, "fps": 2, "start": 1.5, "jsonSchema": {"type": "array"},
        },
    }  # fmt: skip


@pytest.mark.usefixtures("objects")
def test_a_task_may_stand_without_a_prompt(
    deployment: Deployment, stepfunctions: FakeStepFunctions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployments, "find", lambda: deployment)
    assert main(["submit", "s3://assets/b.mp4", "--task", "next-action"]) == 0
    assert "prompt" not in json.loads(stepfunctions.started[0]["input"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--fps", "1e9"], "fps: '1e9': Input should be less than or equal to 60"),
        (["--fps", "fast"], "fps: 'fast': Input should be a valid number"),
        (["--start", "5", "--end", "4"], "end: '4': must be later than start, 5"),
        (["--task", "sing"], "task: 'sing': Input should be 'caption'"),
        (["--task", "captoin"], "or 'common-sense'; did you mean caption?"),
        (["--json-schema", "/no/such.json"], "--json-schema: /no/such.json cannot be read: No such file or directory."),
        (["--json-schema", __file__], "test_submit.py is not JSON: "),
    ],
)
def test_a_wrong_option_is_named_before_anything_is_sent(
    deployment: Deployment, stepfunctions: FakeStepFunctions, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], options: list[str], message: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(deployments, "find", lambda: deployment)
    assert main(["submit", "s3://assets/b.mp4", *options]) == 2
    assert message in capsys.readouterr().err
    assert stepfunctions.started == []


@pytest.mark.usefixtures("objects")
def test_further_files_are_uploaded_once_and_start_nothing(
    deployment: Deployment, stepfunctions: FakeStepFunctions, clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployments, "find", lambda: deployment)
    s3, after = deployment.clients("s3"), clip.with_name("after.png")
    after.write_bytes(b"another")
    more = ["--with", str(after), "--with", "s3://assets/c.png"]
    assert main(["submit", str(clip), *more]) == 0
    keys = [item["Key"] for item in s3.list_objects_v2(Bucket="assets", Prefix="uploads/")["Contents"]]
    metadata = {key.rpartition("/")[2]: s3.head_object(Bucket="assets", Key=key)["Metadata"] for key in keys}
    assert metadata.keys() == {"after.png", clip.name}
    assert all(OBJECT_MARKER in values for values in metadata.values()), "so that `upload` leaves them alone"
    uris = [f"s3://assets/{next(key for key in keys if key.endswith('after.png'))}", "s3://assets/c.png"]
    assert request_of(stepfunctions)["parameters"] == {"moreInputs": uris}


@pytest.mark.usefixtures("objects")
def test_a_further_file_of_a_run_has_to_lie_in_s3(
    deployment: Deployment, clip: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(deployments, "find", lambda: deployment)
    assert main(["submit", "s3://assets/", "--with", str(clip)]) == 2
    assert "is a file of this machine" in capsys.readouterr().err


def test_a_further_file_that_is_missing_is_named_first(
    deployment: Deployment, clip: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(deployments, "find", lambda: deployment)
    assert main(["submit", str(clip), "--with", "nowhere.png"]) == 2
    assert "nowhere.png does not exist" in capsys.readouterr().err
    assert deployment.clients("s3").list_objects_v2(Bucket="assets")["KeyCount"] == 0


def test_every_parameter_is_an_option() -> None:
    assert {name for name, _, _ in REASONER_OPTIONS} | {"reasoning", "more_inputs"} == set(NAMES.values())


def test_a_quiet_submit_prints_the_id_alone(
    deployment: Deployment,
    stepfunctions: FakeStepFunctions,
    clip: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(deployments, "find", lambda: deployment)
    monkeypatch.setattr(model_access, "is_stand_in", lambda *_: True)
    assert main(["submit", str(clip)]) == 0
    assert "cosmos-batch/demo-reason answers" in capsys.readouterr().err, "a note that --quiet leaves out"
    assert main(["submit", str(clip), "--quiet"]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{stepfunctions.started[-1]['name']}\n" and printed.err == ""
