"""The command line refuses what `plan` would refuse, with the same words."""

import shlex
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.commands import run
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.main import main
from cosmos_batch.contract.environment import DeployedCompute, DeployedPipeline, DeployedQueue
from cosmos_batch.contract.identity import Identity
from tests.cli.conftest import PIPELINE, FakeStepFunctions
from tests.support.runs import read_items


@pytest.fixture
def folder(tmp_path: Path, deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a folder with files of several kinds, and a bucket with one file."""
    for name in ("clip.mp4", "first.png", "notes.txt"):
        (tmp_path / name).write_bytes(b"content")
    (tmp_path / "empty.mp4").touch()
    for name in ("clips/a.png", "clips/c.mp4", "clips/deep/b.png", "bad/notes.txt", "bad/take.wmv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"content")
    (tmp_path / "bad" / "empty.mp4").touch()
    for key in ("b.mp4", "c.png"):
        deployment.clients("s3").put_object(Bucket="assets", Key=key, Body=b"content")
    deployment.clients("s3").put_object(Bucket="assets", Key="empty.mp4", Body=b"")
    monkeypatch.setattr(deployments, "find", lambda: deployment)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "messages"),
    [
        ("s3://assets/*.mp4", ["s3://assets/*.mp4 is a pattern, and S3 knows none."]),
        ("s3://assets/clips", ["s3://assets/clips is of a kind", "end it with /: s3://assets/clips/"]),
        ("s3://assets/none.mp4", ["s3://assets/none.mp4 does not exist."]),
        ("s3://other-bucket/x.mp4", ["input: s3://other-bucket/x.mp4 lies outside of the configured buckets."]),
        ("s3://assets/empty.mp4", ["s3://assets/empty.mp4 is empty."]),
        ("first.png --start 1", ["first.png: start: an image has no time to cut."]),
        ("clip.mp4 --task 2d-grounding", ["error: InvalidInput: task: "]),
        ("clip.mp4 --prompt ''", ["The prompt is empty."]),
        ("clip.mp4 first.png clips/ --task 2d-grounding", ["error: InvalidInput: task: "]),
        ("clips/ --start 1", ["clips/a.png: start: an image has no time", "clips/deep/b.png: start: an image has no"]),
        ("bad/", ["empty files: 1 (bad/empty.mp4)", "files of other kinds: 2 (bad/notes.txt, bad/take.wmv)"]),
        ("empty.mp4 notes.txt none.mp4", ["empty.mp4 is empty.", "notes.txt is of a kind", "none.mp4 does not exist."]),
        ("s3://assets/none.mp4 s3://assets/empty.mp4", ["none.mp4 does not exist.", "empty.mp4 is empty."]),
    ],
)
@pytest.mark.parametrize("command", ["submit", "run"])
def test_what_the_plan_would_refuse_is_refused_before_anything_is_sent(
    command: str, line: str, messages: list[str], folder: Path, stepfunctions: FakeStepFunctions,
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def local(*_: Any, **__: Any) -> Any:
        assert "s3://assets" in line or "s3://other" in line, "a cloud was started for what this machine can refuse"
        return nullcontext(deployment)

    monkeypatch.setattr(run, "local_deployment", local)
    assert main([command, *shlex.split(line)]) == 2
    printed = capsys.readouterr()
    assert all(message in printed.err for message in messages), printed.err
    assert all(printed.err.count(message) == 1 for message in messages), "each is said once"
    assert printed.out == "" and stepfunctions.started == []
    uploaded = [entry["Key"] for entry in deployment.clients("s3").list_objects_v2(Bucket="assets")["Contents"]]
    assert not [key for key in uploaded if key.startswith("uploads/")]


@pytest.mark.parametrize(
    "line", ["clip.mp4 nothing/", "nothing/ s3://assets/", "clip.mp4 clips/ --skip-invalid --start 1"]
)
def test_a_folder_without_a_file_keeps_a_run_from_no_other_file(
    line: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "nothing").mkdir()

    def local(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "local_deployment", local)
    assert main(["run", "--prompt", "What?", *shlex.split(line)]) == 130, "it came to its cloud"


def test_valid_files_are_submitted_and_the_others_named(
    folder: Path, stepfunctions: FakeStepFunctions, deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["clip.mp4", "empty.mp4", "s3://assets/b.mp4", "s3://assets/none.mp4"]
    assert main(["submit", *files]) == 2
    assert "--skip-invalid" in capsys.readouterr().err and stepfunctions.started == []
    assert main(["submit", "--skip-invalid", *files]) == 0
    printed = capsys.readouterr()
    run = printed.out.strip()
    assert [started["name"] for started in stepfunctions.started] == [run]
    assert {item.id for item in read_items(deployment.clients("s3"), "state", run)} == {"clip.mp4", "b.mp4"}
    assert "empty.mp4 is empty." in printed.err and "s3://assets/none.mp4 does not exist." in printed.err


def test_bad_files_of_this_machine_and_of_s3_are_named_at_once(
    folder: Path, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["submit", "none.mp4", "clip.mp4", "s3://assets/none.mp4"]) == 2
    printed = capsys.readouterr().err
    assert "none.mp4 does not exist" in printed and "s3://assets/none.mp4 does not exist" in printed
    assert "--skip-invalid" in printed and stepfunctions.started == []


@pytest.mark.parametrize(
    "line", ["s3://assets/b.mp4", "clip.mp4", "clip.mp4 first.png", "clips/", "first.png --with first.png"]
)
def test_what_the_deployed_engine_cannot_look_at_is_refused_before_anything_is_sent(
    line: str, folder: Path, stepfunctions: FakeStepFunctions, deployment: Deployment,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """The message is that of `plan`: tests/lambdas/planning/test_questions.py."""
    identity = Identity(model="nvidia/Cosmos3-Edge", engine="cosmos-framework-reasoner", configuration="c")
    compute = DeployedCompute(
        id=PIPELINE, queue_url="q", job_queue="a", job_definition="d", max_workers=1, vcpus=4, max_life_hours=1
    )
    deployed = DeployedPipeline(queue=DeployedQueue(id=PIPELINE, queue_url="q", identity=identity), compute=compute)
    deployment.clients("ssm").put_parameter(Name="/p", Type="String", Value=deployed.model_dump_json())
    monkeypatch.setattr(deployments, "find", lambda: replace(deployment, parameters={PIPELINE: "/p"}))
    assert main(["submit", *line.split()]) == 2
    printed = capsys.readouterr().err
    assert "Cosmos Framework looks at" in printed and "engine to 'vllm'" in printed
    assert stepfunctions.started == []
    assert main(["submit", "first.png"]) == 0


def test_a_generator_answers_no_question(
    folder: Path, deployment: Deployment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(deployments, "find", lambda: replace(deployment, pipelines=["cosmos3-nano"]))
    assert main(["submit", "clip.mp4", "--pipeline", "cosmos3-nano"]) == 2
    assert "cosmos3-nano answers no question: it is a generator." in capsys.readouterr().err
    assert main(["submit", "clip.mp4"]) == 2
    assert "No pipeline is enabled here." in capsys.readouterr().err


def test_files_of_one_request_that_are_too_large_together_are_refused(
    folder: Path, stepfunctions: FakeStepFunctions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("cosmos_batch.planning.input_files.INPUT_SIZE_LIMIT", 13)  # bytes; each file has 7
    assert main(["submit", "clip.mp4", "--with", "s3://assets/c.png"]) == 2
    assert "moreInputs: the 2 files have 14 bytes" in capsys.readouterr().err
    monkeypatch.setattr("cosmos_batch.planning.input_files.INPUT_SIZE_LIMIT", 6)
    assert main(["submit", "clip.mp4"]) == 2
    assert "clip.mp4 has 7 bytes, more than fit on a worker's disk" in capsys.readouterr().err
    assert stepfunctions.started == []
