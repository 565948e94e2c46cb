"""Episodes of a LeRobot data set are inputs of `submit`, `run` and `generate`."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.commands import generate
from cosmos_batch.cli.commands import run as run_command
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.generation_request import GenerationRequest
from cosmos_batch.cli.job_result import JobResult
from cosmos_batch.cli.main import main
from cosmos_batch.cli.runs.stored_run import stored_run
from cosmos_batch.contract.s3 import parse_uri
from cosmos_batch.planning.requests import read_request
from tests.cli.conftest import PIPELINE, FakeStepFunctions
from tests.robot_data.test_robot_data import assert_shows
from tests.support.generations import document_of, settled
from tests.support.robot_data_set import FRONT, LENGTHS, TASKS, WRIST, action, write_v21, write_v30
from tests.support.runs import read_items

DRIVE = ("--mode", "forward_dynamics", "--domain-name", "libero", "--no-guardrails", "--submit")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a folder with a data set of each layout, `v21` and `v30`."""
    root = tmp_path_factory.mktemp("data-sets")
    write_v21(root / "v21")
    write_v30(root / "v30")
    return root


@pytest.fixture(autouse=True)
def here(deployment: Deployment, folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folders)
    both = Deployment(**{**vars(deployment), "pipelines": [PIPELINE, "cosmos3-nano"]})
    monkeypatch.setattr(deployments, "find", lambda: both)


@pytest.fixture
def fetched(deployment: Deployment, tmp_path: Path) -> Callable[[str], Path]:
    """Provide a function that fetches an object."""

    def fetch(uri: str) -> Path:
        bucket, key = parse_uri(uri)
        path = tmp_path / key.rpartition("/")[2]
        deployment.clients("s3").download_file(bucket, key, str(path))
        return path

    return fetch


def requests(stepfunctions: FakeStepFunctions) -> list[dict[str, Any]]:
    sent = [json.loads(started["input"]) for started in stepfunctions.started]
    for request in sent:
        read_request(request)
    return sent


@pytest.mark.parametrize("name", ["v21", "v30"])
def test_a_run_has_an_item_for_each_episode_and_camera(
    name: str, deployment: Deployment, fetched: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    cameras = ["--camera", WRIST, "--camera", FRONT]
    assert main(["submit", f"{name}/", "--episode", "1-2", *cameras, "--task", "caption"]) == 0
    run = capsys.readouterr().out.strip()
    request = stored_run(deployment, run).request()
    assert request.origin == f"--episode 1-2 --camera {WRIST} --camera {FRONT} {name}/", "what `runs list` shows"
    items = read_items(deployment.clients("s3"), "state", run)
    assert len(items) == 4
    for item in items:
        assert item.input is not None
        [episode] = [number for number in (1, 2) if f"episode_{number:06d}" in item.input]
        assert_shows(fetched(item.input), episode)


def test_cut_videos_are_named_after_episode_and_camera_and_removed_afterwards(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    assert main(["submit", "v30", "--episode", "all", "--camera", FRONT]) == 0
    items = read_items(deployment.clients("s3"), "state", capsys.readouterr().out.strip())
    names = [str(item.input).rpartition("/")[2] for item in items]
    assert names == [f"episode_{number:06d}.{FRONT}.mp4" for number in range(3)]
    assert not list((tmp_path / "scratch").iterdir())


def test_run_takes_episodes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def stop(files: list[str], *_: object) -> None:
        seen.extend(files)
        raise KeyboardInterrupt

    monkeypatch.setattr(run_command, "checked_request", stop)
    assert main(["run", "v21", "--episode", "0", "--camera", FRONT]) == 130
    assert seen == [f"v21/videos/chunk-000/{FRONT}/episode_000000.mp4"]


def test_a_generation_has_the_episodes_actions_rate_and_task(
    stepfunctions: FakeStepFunctions, fetched: Callable[[str], Path]
) -> None:
    episode = ["--episode", "1", "--camera", FRONT, "--episode-start", "0.4", "--action-chunk-size", "8"]
    assert main(["generate", "v30", *episode, *DRIVE]) == 0
    [request] = requests(stepfunctions)
    assert request["prompt"] == TASKS[1]
    assert_shows(fetched(request["input"]), 1, first=4)
    settings = request["generation"]
    assert (settings["fps"], settings["actionChunkSize"], settings["rawActionDim"]) == (10, 8, 7)
    rows = json.loads(fetched(settings["actionPath"]).read_text())
    assert rows == [action(1, frame) for frame in range(4, 12)]


@pytest.fixture
def made_here(deployment: Deployment, stepfunctions: FakeStepFunctions, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `generate` without --submit end with the document of what it asked for."""

    def make(_: Deployment, request: GenerationRequest) -> JobResult:
        submitted = generate.submit(deployments.find(), request)
        sent = requests(stepfunctions)[-1]
        settings = {**sent["generation"], "seed": 1}
        document = document_of(settled(settings, "video", sent["prompt"], guardrails=False), "mp4", [])
        document["input"]["uri"] = sent["input"]
        document["moreInputs"] = [{"uri": settings["actionPath"], "versionId": None}]
        del document["ofAnotherRelease"]
        document |= dict.fromkeys(("gpus", "gpuSeconds", "instanceType", "dollars"))
        document |= {"modelSize": "Nano", "jobId": submitted.job_id, "timestamp": "20261120-120000"}
        document |= {"files": [], "notes": [], "facts": {}, "timings": {}, "jobLogs": "", "batchJobId": "b"}
        uri = sent["input"].replace(".mp4", ".json")
        bucket, key = parse_uri(uri)
        deployment.clients("s3").put_object(Bucket=bucket, Key=key, Body=json.dumps(document).encode())
        return JobResult(document_uri=uri, file_uris=[uri], uploaded=submitted.uploaded)

    monkeypatch.setattr(generate, "local_deployment", lambda *_, **__: nullcontext(deployment))
    monkeypatch.setattr(generate, "make", make)


@pytest.mark.parametrize(("name", "start"), [("v21", "0"), ("v21", "0.4"), ("v30", "0"), ("v30", "0.4")])
def test_a_generation_from_an_episode_is_made_again_from_its_document(
    name: str, start: str, made_here: None, stepfunctions: FakeStepFunctions, fetched: Callable[[str], Path],
    tmp_path: Path,
) -> None:  # fmt: skip
    """The clip that is cut from an episode is removed when the command ends, so a copy is saved beside the document."""
    chosen = ["--episode", "1", "--camera", FRONT, "--episode-start", start, "--action-chunk-size", "8"]
    assert main(["generate", name, *chosen, *DRIVE[:-1], "--output", f"{tmp_path}/made/"]) == 0
    [document] = (tmp_path / "made").glob(f"*{FRONT}.json" if name == "v30" or start != "0" else "episode_000001.json")
    assert main(["generate", str(document), "--submit"]) == 0
    again, first = requests(stepfunctions)[-1], round(float(start) * 10)
    assert_shows(fetched(again["input"]), 1, first=first)
    rows = json.loads(fetched(again["generation"]["actionPath"]).read_text())
    assert rows == [action(1, frame) for frame in range(first, first + 8)]


def test_a_cut_clip_replaces_no_other_file_beside_the_result(
    made_here: None, stepfunctions: FakeStepFunctions, fetched: Callable[[str], Path], tmp_path: Path
) -> None:
    clip = tmp_path / f"episode_000001.{FRONT}.mp4"
    clip.write_bytes(b"mine")
    chosen = ["--episode", "1", "--camera", FRONT, "--action-chunk-size", "8", *DRIVE[:-1]]
    assert main(["generate", "v30", *chosen, "--output", str(tmp_path)]) == 0
    assert clip.read_bytes() == b"mine"
    assert main(["generate", str(clip.with_suffix(".json")), "--submit"]) == 0
    assert_shows(fetched(requests(stepfunctions)[-1]["input"]), 1)


def test_what_a_person_names_replaces_what_the_episode_says(stepfunctions: FakeStepFunctions) -> None:
    named = ["--prompt", "Push it.", "--fps", "5", "--mode", "inverse_dynamics", "--domain-name", "umi"]
    assert main(["generate", "v21", "--episode", "0", "--camera", FRONT, "--submit", *named]) == 0
    [request] = requests(stepfunctions)
    assert (request["prompt"], request["generation"]["fps"]) == ("Push it.", 5)
    assert "actionPath" not in request["generation"]


@pytest.mark.parametrize(
    ("line", "message", "remedy"),
    [
        (["submit", "v30"], "no episode was named", f"--episode 0 --camera {FRONT}"),
        (["submit", "v30", "--camera", FRONT], "no episode was named", "--episode 0"),
        (["submit", "v30", "--episode", "0"], "has 2 cameras", WRIST),
        (["submit", "v30", "--episode", "0", "--camera", "front"], "has no camera front", FRONT),
        (["submit", "v30", "--episode", "9", "--camera", FRONT], "no episode 9", "0 to 2"),
        (["submit", "v30", "--episode", "x", "--camera", FRONT], "x is no number", "0-9"),
        (["submit", "v30", "--episode", "5-2", "--camera", FRONT], "5-2 is no number or range", "0-9"),
        (["submit", "clip.mp4", "--episode", "0"], "none was named", "meta/info.json"),
        (["submit", "lerobot/pusht", "--episode", "0"], "does not exist", "hf download lerobot/pusht"),
        (["run", "lerobot/pusht"], "does not exist", "hf download lerobot/pusht --repo-type dataset --local-dir pusht"),
        (["generate", "lerobot/pusht", "--episode", "0"], "does not exist", "hf download lerobot/pusht"),
        (["generate", "v30", "--camera", FRONT, *DRIVE], "no episode was named", "--episode 0"),
        (["generate", "v30", "--episode", "0", "--camera", FRONT, *DRIVE], "needed: 16", "--action-chunk-size"),
        (["generate", "v30", "--episode", "0", "--camera", FRONT, *DRIVE[:3], "umi", "--action-chunk-size", "8"],
         "have 7 numbers, those of umi 10", "--action-path"),
        (["generate", "v30", "--episode", "0", "--camera", FRONT, "--mode", "forward_dynamics"],
         "--domain-name is missing", "libero"),
        (["generate", "v30", "--episode", "0", "--camera", FRONT, *DRIVE[:3], "librero"],
         "librero is not known", "Did you mean libero?"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said_before_anything_is_sent(
    line: list[str], message: str, remedy: str, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line) == 2
    printed = capsys.readouterr().err
    assert message in printed and remedy in printed
    assert stepfunctions.started == []


def test_a_named_number_of_actions_is_taken_from_the_episodes_beginning(
    stepfunctions: FakeStepFunctions, fetched: Callable[[str], Path]
) -> None:
    assert main(["generate", "v21", "--episode", "2", "--camera", WRIST, "--action-chunk-size", "8", *DRIVE]) == 0
    rows = json.loads(fetched(requests(stepfunctions)[0]["generation"]["actionPath"]).read_text())
    assert rows == [action(2, frame) for frame in range(8)]
    assert LENGTHS[2] > 8


def test_a_run_over_the_folder_says_that_it_takes_the_files_as_they_are(
    deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", "plan", "v30"]) == 0
    assert "v30 is a LeRobot data set" in capsys.readouterr().err
