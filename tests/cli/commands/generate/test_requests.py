"""`generate` turns options and request files into one request of the state machine, and saves the job's files."""

import json
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.catalogue import generation
from cosmos_batch.cli import input_checks as cli_files
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.job_result import JobResult, save_files
from cosmos_batch.cli.main import main
from cosmos_batch.cli.options import COMPUTED, GENERATION_OPTIONS, GENERATION_SWITCHES, HINTS, MODES
from cosmos_batch.cli.output import OutputTarget
from cosmos_batch.contract.generation.parameters import GenerationParameters
from cosmos_batch.contract.s3 import OBJECT_MARKER, parse_uri
from tests.cli.commands.generate.conftest import NANO, TO_IMAGE, submitted
from tests.cli.conftest import PIPELINE, FakeStepFunctions
from tests.support.generations import document_of, settled


def test_options_are_the_parameters_by_their_names() -> None:
    named = {name for name, *_ in GENERATION_OPTIONS} | {name for name, _ in GENERATION_SWITCHES}
    assert named | {"condition_frames", "controls", "action"} == set(GenerationParameters.model_fields)
    assert (HINTS, COMPUTED) == (generation.HINTS, generation.COMPUTED_HINTS)
    assert tuple(generation.MODES) == MODES


def test_a_prompt_alone_is_made_in_a_folder_of_its_own(
    omni: Deployment, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    sent = submitted(stepfunctions, "--prompt", "何が?", "--seed", "7", "--fps", "29.97", "--sound", "--no-guardrails")
    assert (sent["pipeline"], sent["prompt"], "input" in sent) == (NANO, "何が?", False)
    assert sent["generation"] == {"seed": 7, "fps": 29.97, "sound": True, "guardrails": False}
    assert sent["output"].startswith("s3://assets/uploads/") and sent["output"].endswith("/")
    assert capsys.readouterr().out.strip() == stepfunctions.started[0]["name"]


def test_files_of_this_machine_are_uploaded_and_start_nothing_by_themselves(
    omni: Deployment, stepfunctions: FakeStepFunctions, files: Path
) -> None:
    sent = submitted(
        stepfunctions,
        *(str(files / "clip.mp4"), "--prompt", "At night.", "--edge", "--depth", str(files / "depth.mp4")),
        *("--seg", "s3://assets/seg.mp4", "--seg-weight", "0.5", "--blur-strength", "high"),
    )
    assert sent["generation"]["mode"] == "transfer"
    assert sent["generation"]["controls"]["edge"] == {}
    assert sent["generation"]["controls"]["seg"] == {"path": "s3://assets/seg.mp4", "weight": 0.5}
    assert sent["generation"]["controls"]["blur"] == {"strength": "high"}, "which is made from the input"
    for uri in (sent["input"], sent["generation"]["controls"]["depth"]["path"]):
        bucket, key = parse_uri(uri)
        assert OBJECT_MARKER in omni.clients("s3").head_object(Bucket=bucket, Key=key)["Metadata"]
    assert "output" not in sent, "beside the input"


def test_actions_come_from_a_file(omni: Deployment, stepfunctions: FakeStepFunctions, files: Path) -> None:
    options = ("--mode", "forward_dynamics", "--domain-name", "av", "--action-path", str(files / "moves.json"))
    sent = submitted(stepfunctions, str(files / "first.png"), "--prompt", "x", *options)
    assert sent["generation"]["actionPath"].endswith("/moves.json")


def test_one_option_takes_several_numbers(omni: Deployment, stepfunctions: FakeStepFunctions, files: Path) -> None:
    sent = submitted(stepfunctions, str(files / "clip.mp4"), "--prompt", "x", "--condition-frames", "0", "2")
    assert sent["generation"]["conditionFrames"] == [0, 2]


def test_a_request_names_files_beside_it_and_options_go_before_it(
    omni: Deployment, stepfunctions: FakeStepFunctions, files: Path
) -> None:
    request = {"prompt": {"duration": "4s"}, "input": "first.png", "num_steps": 20, "seed": 1, "fps": 12}
    (files / "rain.cosmos.json").write_text(json.dumps(request))
    sent = submitted(stepfunctions, str(files / "rain.cosmos.json"), "--seed", "2")
    assert (sent["prompt"], sent["generation"]) == ('{"duration": "4s"}', {"steps": 20, "seed": 2, "fps": 12})
    assert sent["input"].endswith("/first.png")


@pytest.fixture
def document(files: Path) -> Path:
    """Provide the document of a transfer whose input lies on this machine and whose depth map lies in S3."""
    generation = settled({"edge": {}, "depth": "d.mp4", "mode": "transfer", "seed": 7}, "video")
    content = document_of(generation.model_copy(update={"given_prompt": "Water."}), "mp4", ["depth.mp4"])
    clip = files / "clip.mp4"
    content["input"] |= {"path": str(clip), "sha256": cli_files.digest(clip)}
    (files / "made.json").write_text(json.dumps(content))
    return files / "made.json"


def test_a_document_is_generated_again(omni: Deployment, stepfunctions: FakeStepFunctions, document: Path) -> None:
    sent = submitted(stepfunctions, str(document), "--steps", "9")
    assert (sent["pipeline"], sent["prompt"]) == (NANO, "A robot pours water.")
    assert (sent["generation"]["seed"], sent["generation"]["steps"]) == (7, 9)
    assert sent["input"].startswith("s3://assets/uploads/") and sent["input"].endswith("/clip.mp4")
    assert sent["generation"]["controls"]["depth"] == {"path": "s3://my-bucket/depth.mp4"}
    assert sent["origin"]["files"] == [{"uri": "s3://my-bucket/depth.mp4", "versionId": "depth.mp4"}]
    assert sent["origin"]["givenPrompt"] == "Water."
    assert str(document.parent) not in json.dumps(sent)


def test_a_video_that_was_replaced_since_does_not_keep_a_document_from_being_generated_again(
    omni: Deployment, stepfunctions: FakeStepFunctions, document: Path
) -> None:
    """The job reads the version that the document names."""
    short = (document.parent / "short.mp4").read_bytes()
    omni.clients("s3").put_object(Bucket="my-bucket", Key="depth.mp4", Body=short)
    submitted(stepfunctions, str(document))


def test_another_prompt_beside_a_document_is_the_callers_own(
    omni: Deployment, stepfunctions: FakeStepFunctions, document: Path
) -> None:
    sent = submitted(stepfunctions, str(document), "--prompt", "Rain.")
    assert sent["prompt"] == "Rain." and "givenPrompt" not in sent["origin"]


@pytest.mark.parametrize(
    ("settings", "options", "size"),
    [
        ({"width": 832, "height": 480}, ("--resolution", "256p"), {"resolution": "256p"}),
        ({"width": 832, "height": 480}, ("--aspect-ratio", "1:1"), {"aspectRatio": "1:1"}),
        ({"width": 832, "height": 480}, ("--height", "448"), {"width": 832, "height": 448}),
        (
            {"resolution": "480p", "aspectRatio": "1:1"},
            ("--width", "320", "--height", "192"),
            {"width": 320, "height": 192},
        ),
        (
            {"resolution": "480p", "aspectRatio": "1:1"},
            ("--resolution", "256p"),
            {"resolution": "256p", "aspectRatio": "1:1"},
        ),
    ],
)
def test_a_size_beside_a_request_replaces_its_own(
    omni: Deployment,
    stepfunctions: FakeStepFunctions,
    files: Path,
    settings: dict[str, Any],
    options: tuple[str, ...],
    size: dict[str, Any],
) -> None:
    (files / "rain.cosmos.json").write_text(json.dumps({"prompt": "Rain.", **settings}))
    sent = submitted(stepfunctions, str(files / "rain.cosmos.json"), *options)["generation"]
    assert {name: value for name, value in sent.items() if value is not None} == size


@pytest.mark.parametrize(("content", "message"), [(None, "is not there any more"), (b"changed", "is another file")])
def test_a_document_whose_input_is_gone_or_has_changed_is_refused(
    files: Path, document: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, message: str
) -> None:
    (files / "clip.mp4").unlink()
    if content is not None:
        (files / "clip.mp4").write_bytes(content)
    assert main(["generate", str(document)]) == 2
    assert message in capsys.readouterr().err


def test_a_request_in_s3_is_read_by_plan(omni: Deployment, stepfunctions: FakeStepFunctions) -> None:
    body = json.dumps({"prompt": "Rain.", "pipeline": TO_IMAGE}).encode()
    omni.clients("s3").put_object(Bucket="assets", Key="rain.cosmos.json", Body=body)
    sent = submitted(stepfunctions, "s3://assets/rain.cosmos.json", "--steps", "20")
    assert (sent["requestFile"], sent["generation"]) == ("s3://assets/rain.cosmos.json", {"steps": 20})
    assert sent["pipeline"] == TO_IMAGE


def test_the_smallest_pipeline_for_the_mode_is_taken_or_the_named_pipeline(
    omni: Deployment, stepfunctions: FakeStepFunctions
) -> None:
    assert submitted(stepfunctions, "--prompt", "x", "--mode", "t2i")["pipeline"] == NANO
    assert submitted(stepfunctions, "--prompt", "x", "--pipeline", TO_IMAGE)["pipeline"] == TO_IMAGE
    for named in (PIPELINE, "cosmos3-super"):
        assert main(["generate", "--submit", "--prompt", "x", "--pipeline", named]) == 2


def test_files_are_saved_with_the_document_last(omni: Deployment, tmp_path: Path) -> None:
    names = ["a.json", "a.mp4", "a.mp4.previewFile.gif"]
    for name in names:
        omni.clients("s3").put_object(Bucket="assets", Key=f"out/{name}", Body=name.encode())
    result = JobResult(document_uri="s3://assets/out/a.json", file_uris=[f"s3://assets/out/{name}" for name in names])
    paths = save_files(omni, result, OutputTarget(tmp_path / "made", is_folder=True, force=False))
    assert [path.name for path in paths] == [*names[1:], names[0]]
    assert [path.read_text() for path in paths] == [path.name for path in paths]
