"""`generate` says what is wrong with a request before it sends, uploads or starts anything."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli import generation_checks
from cosmos_batch.cli.commands import generate
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.main import main
from cosmos_batch.contract.environment import DeployedCompute, DeployedPipeline, DeployedQueue
from cosmos_batch.contract.generation.serving import Serving
from cosmos_batch.contract.identity import Identity
from tests.cli.commands.generate.conftest import NANO, submitted
from tests.cli.conftest import FakeStepFunctions

REFUSED_BY_PLAN = [
    (["{}/clip.mp4", "--mode", "i2v"], "input: is a video, and mode i2v starts from an image."),
    (["{}/first.png", "--mode", "v2v"], "input: is an image, and mode v2v starts from a video."),
    (["--num-frames", "1000"], "numFrames: 1,000"),
    (["--mode", "transfer"], "controls: transfer needs at least one."),
    (["--depth", ""], "controls.depth: has no path."),
    (["{}/first.png", "--condition-frames", "0"], "conditionFrames: has no meaning in mode i2v"),
    (["--width", "61", "--height", "61"], "61x61 are not multiples of 16"),
    (["{}/first.png", "--mode", "policy"], "domainName: is missing."),
    (["--depth", "{}/short.mp4"], "controls: their numbers of frames are depth 3; 5 or more are needed."),
    (["{}/clip.mp4", "--edge", "--seg", "{}/seg.mp4"], "the videos differ in their frames: edge 40, seg 12"),
    (["--depth", "{}/clip.mp4", "--num-frames", "93"], "frames are depth 40; 93 are needed."),
    (["--depth", "{}/fake.mp4"], "controls.depth: The content is"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED_BY_PLAN)
def test_what_the_plan_would_refuse_is_refused_before_a_cloud_is_started(
    files: Path, options: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COSMOS_BATCH_HOME", str(files))
    monkeypatch.setattr("cosmos_batch.cli.local_deployment._own_deployment", lambda *_: pytest.fail("it was started"))
    line = [option.replace("{}", str(files)) for option in options]
    assert main(["generate", *line, "--prompt", "x", "--no-guardrails"]) == 2
    printed = capsys.readouterr().err
    assert "InvalidInput" in printed and message in printed


@pytest.mark.parametrize(
    "names",
    [
        ["s3://assets/clip.mp4", "--depth", "s3://assets/depth.mp4"],
        ["s3://assets/first.png", "--mode", "policy", "--domain-name", "av", "--action-path", "s3://assets/moves.json"],
        ["s3://assets/rain.cosmos.json"],
    ],
)
def test_files_in_s3_are_refused_before_a_cloud_of_its_own_is_started(
    names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COSMOS_BATCH_HOME", str(tmp_path))
    monkeypatch.setattr("cosmos_batch.cli.local_deployment._own_deployment", lambda *_: pytest.fail("it was started"))
    assert main(["generate", *names, "--prompt", "x", "--no-guardrails"]) == 2
    printed = capsys.readouterr().err
    assert all(f"{name} lies in S3" in printed for name in names if name.startswith("s3://")), printed
    assert "cosmos-batch generate --submit" in printed


@pytest.mark.parametrize(("options", "message"), REFUSED_BY_PLAN)
def test_what_the_plan_would_refuse_is_refused_before_anything_is_uploaded(
    omni: Deployment, stepfunctions: FakeStepFunctions, files: Path, options: list[str], message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    line = [option.replace("{}", str(files)) for option in options]
    assert main(["generate", "--submit", *line, "--prompt", "x"]) == 2
    assert message in capsys.readouterr().err
    assert stepfunctions.started == []
    assert "Contents" not in omni.clients("s3").list_objects_v2(Bucket="assets", Prefix="uploads/")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--depth", "s3://assets/short.mp4"], "controls: their numbers of frames are depth 3; 5 or more are needed."),
        (["{}/clip.mp4", "--edge", "--seg", "s3://assets/short.mp4"], "differ in their frames: edge 40, seg 3"),
        (["s3://assets/short.mp4", "--edge", "--blur"], "frames are edge 3, blur 3; 5 or more are needed."),
        (["--depth", "s3://assets/fake.mp4"], "controls.depth: The content is"),
    ],
)
def test_control_videos_in_s3_are_checked_before_a_job_is_started(
    omni: Deployment, stepfunctions: FakeStepFunctions, files: Path, options: list[str], message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    for name in ("short.mp4", "fake.mp4"):
        omni.clients("s3").put_object(Bucket="assets", Key=name, Body=(files / name).read_bytes())
    line = [option.replace("{}", str(files)) for option in options]
    assert main(["generate", "--submit", *line, "--prompt", "x"]) == 2
    printed = capsys.readouterr().err
    assert "InvalidInput" in printed and message in printed
    assert stepfunctions.started == []


def test_control_videos_in_s3_that_are_large_are_left_to_the_worker(
    omni: Deployment, stepfunctions: FakeStepFunctions, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = (files / "short.mp4").read_bytes()
    omni.clients("s3").put_object(Bucket="assets", Key="short.mp4", Body=content)
    monkeypatch.setattr(generation_checks, "COPY_LIMIT", len(content) - 1)
    submitted(stepfunctions, "--depth", "s3://assets/short.mp4", "--prompt", "x")


def deployed_as(omni: Deployment, monkeypatch: pytest.MonkeyPatch, model: str, **serving: Any) -> None:
    """Store the SSM parameter of Nano's pipeline, as `npx cdk deploy` does, and let the deployment name it."""
    settings = {"engine": "diffusers", "guardrails": True, "max_resolution": "480p", "plans": {}, **serving}
    pipeline = DeployedPipeline(
        queue=DeployedQueue(
            id=NANO,
            queue_url="https://queue",
            identity=Identity(model=model, engine="diffusers", configuration="digest"),
            serving=Serving.model_validate(settings),
        ),
        compute=DeployedCompute(
            id=NANO, queue_url="https://queue", job_queue="arn:queue", job_definition="arn:definition", max_workers=1,
            vcpus=4, max_life_hours=12,
        ),
    )  # fmt: skip
    omni.clients("ssm").put_parameter(Name="/nano", Value=pipeline.model_dump_json(), Type="String")
    found = replace(omni, parameters={NANO: "/nano"})
    monkeypatch.setattr(deployments, "find", lambda: found)


@pytest.mark.parametrize(
    ("model", "serving", "options", "message"),
    [
        ("nvidia/Cosmos3-Nano", {}, ["--resolution", "720p"], "720p"),
        ("nvidia/Cosmos3-Nano", {"engine": "vllm-omni"}, ["--fps", "0.5"], "requires an fps of at least 1"),
        (
            "nvidia/Cosmos3-Nano",
            {"guardrails_required": True},
            ["--no-guardrails"],
            "guardrails: cosmos3-nano requires",
        ),
        ("nvidia/Cosmos3-Nano", {}, ["--upsample-prompt"], "no model that rewrites prompts is configured"),
        ("me/Cosmos3-Nano-Distilled", {}, [], "its name does not say to how many steps"),
    ],
)
def test_what_the_deployed_pipeline_cannot_do_is_refused_before_anything_is_uploaded(
    omni: Deployment, stepfunctions: FakeStepFunctions, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], model: str, serving: dict[str, Any], options: list[str], message: str,
) -> None:  # fmt: skip
    deployed_as(omni, monkeypatch, model, **serving)
    assert main(["generate", "--submit", "--prompt", "x", *options]) != 0
    assert message in capsys.readouterr().err
    assert stepfunctions.started == []
    assert main(["generate", "--submit", "--prompt", "x", "--resolution", "256p"]) == (0 if "me/" not in model else 1)


def test_all_wrong_files_of_a_generation_are_named_at_once(
    omni: Deployment, stepfunctions: FakeStepFunctions, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = [str(files / "none.mp4"), "--depth", str(files / "notes.txt"), "--seg", "s3://assets/folder/"]
    assert main(["generate", "--submit", "--prompt", "x", *line]) == 2
    printed = capsys.readouterr().err
    assert all(words in printed for words in ("none.mp4 does not exist", "notes.txt is of a kind", "is a folder"))
    line = ["s3://assets/none.mp4", "--depth", "s3://assets/none2.mp4", "--seg", "s3://elsewhere/seg.mp4"]
    assert main(["generate", "--submit", "--prompt", "x", *line]) == 2
    printed = capsys.readouterr().err
    assert all(words in printed for words in ("none.mp4 does not exist", "none2.mp4 does not", "outside of the conf"))
    assert main(["generate", "--submit", "s3://assets/none.cosmos.json"]) == 2
    assert "none.cosmos.json does not exist" in capsys.readouterr().err
    assert stepfunctions.started == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "There is no prompt"),
        (["--prompt", " "], "The prompt is empty"),
        (["--prompt", "x", "--fps", "0"], "fps"),
        (["--prompt", "x", "--steps", "many"], "steps"),
        (["--prompt", "x" * 40_000], "40,000 bytes"),
        (["{}/none.png", "--prompt", "x"], "does not exist"),
        (["{}/notes.txt", "--prompt", "x"], "no pipeline takes"),
        (["{}/clip.mp4", "--prompt", "x", "--depth", "{}/none.mp4"], "none.mp4 does not exist"),
        (["{}/clip.mp4", "--prompt", "x", "--depth", "{}/first.png"], "Allowed extensions: .mp4"),
        (["{}/none.cosmos.json"], "cannot be read"),
    ],
)
def test_errors_are_reported_before_anything_is_sent(
    files: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", *(option.replace("{}", str(files)) for option in options)]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [(["--mode", "i2v"], "i2v"), (["--num-frames", "1000"], "numFrames"), (["--resolution", "768p"], "768p")],
)
def test_what_is_wrong_with_a_request_is_said_before_guardrails_that_are_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("COSMOS_BATCH_HOME", str(tmp_path))
    monkeypatch.setattr(generate, "find_spec", lambda _: None)
    assert main(["generate", "--prompt", "x"]) == 2
    assert "Guardrails are on" in capsys.readouterr().err
    assert main(["generate", "--prompt", "x", *options]) == 2
    printed = capsys.readouterr().err
    assert message in printed and "Guardrails" not in printed


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--prompt", "x", "--fps", "0"], ["fps: '0'", "cosmos-batch generate --help"]),
        (["{}/clip.mp4", "--prompt", "x", "--edge-strength", "strong"], ["strength", "cosmos-batch generate --help"]),
        (["--prompt", "x", "--negative-prompt", "@{}/typo.json"], ["typo.json is not one of", "name a file of text"]),
        (["--prompt", "@{}/typo.json"], ["typo.json is not one of", "name a file of text"]),
        (["--prompt", "@{}/asks.json"], ["asks.json is not one of", "cosmos-batch generate {}/asks.json"]),
        (["{}/asks.json", "--fps", "0"], ["fps: '0'", "cosmos-batch generate --help"]),
        (["{}/asks.json"], ["fps: 0", "A request looks like"]),
    ],
)
def test_a_remedy_fits_the_place_of_what_is_wrong(
    files: Path, options: list[str], parts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "typo.json").write_text('{"subjcts": ["a robot"]}')
    (files / "asks.json").write_text('{"prompt": "Rain.", "fps": 0}')
    assert main(["generate", *(option.replace("{}", str(files)) for option in options)]) == 2
    printed = capsys.readouterr().err
    assert all(part.replace("{}", str(files)) in printed for part in parts), printed
    assert ("A request looks like" in printed) == ("A request looks like" in parts)
