"""`result ID --overlay` draws a job's answer on its file, wherever that lies."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.commands import run
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.job_result import JobResult
from cosmos_batch.cli.main import main
from cosmos_batch.cli.stopped_clouds.lookup import kept_here
from cosmos_batch.contract.job import Job
from tests.cli.conftest import FakeStepFunctions
from tests.cli.test_job_snapshot import run_through
from tests.contract.test_models import document
from tests.support import media_files

BOX = {"bbox_2d": [0, 0, 500, 1000], "label": "left half"}
GREY = np.full((64, 96, 3), 128, np.uint8)
NAME = "clip_CosmosReason_20261120-120000"


@pytest.fixture(autouse=True)
def here(deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Point the command at the deployment, from a folder of its own."""
    monkeypatch.setattr(deployments, "find", lambda: deployment)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return media_files.video(tmp_path / "original.mp4", frames=20, width=96, height=64, paint=lambda _: GREY)


@pytest.fixture
def answered(deployment: Deployment, job: Job, stepfunctions: FakeStepFunctions, clip: Path) -> Job:
    """Provide a job that has answered about the clip in S3 with a box."""
    run_through(deployment, job, stepfunctions)
    answer(deployment, job, json.dumps([BOX]))
    deployment.clients("s3").upload_file(str(clip), "assets", "clip.mp4")
    return job


def answer(deployment: Deployment, job: Job, text: str, **fields: Any) -> None:
    fields = {"frame_times": [0.0, 1.0], "input_uri": "s3://assets/clip.mp4", "input_version_id": None, **fields}
    body = document(result=text, **fields).to_json().encode()
    deployment.clients("s3").put_object(Bucket="assets", Key=job.document.key, Body=body)


def drawn_columns(path: Path) -> set[int]:
    """Return the columns that the middle row of every frame of an overlay has drawn in color."""
    with av.open(str(path)) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert len(frames) == 20
    rows = [np.abs(frame[45].astype(int) - 128).max(axis=-1) > 40 for frame in frames]
    assert all(np.array_equal(row, rows[0]) for row in rows)
    return set(np.flatnonzero(rows[0]).tolist())


def test_the_clip_is_written_with_its_boxes_beside_the_document(
    answered: Job, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["result", answered.job_id, "--overlay", "--output", "answers/"]) == 0
    names = [f"answers/{NAME}{suffix}" for suffix in (".json", ".sheet.png", ".overlay.mp4")]
    assert capsys.readouterr().out.splitlines() == names
    columns = drawn_columns(tmp_path / names[2])
    assert {47, 48} & columns, "the right side of the left half"
    assert not columns & set(range(53, 96))
    with Image.open(names[1]) as sheet:
        assert sheet.width > 1000


def test_without_an_output_folder_pictures_lie_here_and_only_the_document_is_printed(
    answered: Job, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["result", answered.job_id, "--overlay"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["result"] == json.dumps([BOX])
    assert f"{NAME}.overlay.mp4" in printed.err
    assert (tmp_path / f"{NAME}.overlay.mp4").is_file()


def test_an_output_file_gives_the_pictures_their_names(answered: Job, tmp_path: Path) -> None:
    assert main(["result", answered.job_id, "--overlay", "--output", "cup.json"]) == 0
    assert {path.name for path in tmp_path.glob("cup.*")} == {"cup.json", "cup.sheet.png", "cup.overlay.mp4"}


def test_an_answer_in_words_gets_a_sheet_and_a_note(
    deployment: Deployment, answered: Job, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(deployment, answered, "A robot pours water.")
    assert main(["result", answered.job_id, "--overlay", "--output", "a.json"]) == 0
    assert "--task 2d-grounding" in capsys.readouterr().err
    assert {path.name for path in tmp_path.glob("a.*")} == {"a.json", "a.sheet.png"}


def test_existing_pictures_are_kept_unless_forced(
    answered: Job, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / f"{NAME}.sheet.png").write_text("mine")
    assert main(["result", answered.job_id, "--overlay"]) == 1
    assert "--force" in capsys.readouterr().err
    assert (tmp_path / f"{NAME}.sheet.png").read_text() == "mine"
    assert main(["result", answered.job_id, "--overlay", "--force"]) == 0
    with Image.open(tmp_path / f"{NAME}.sheet.png") as sheet:
        assert sheet.format == "PNG"


def test_a_file_that_is_gone_can_be_named(
    deployment: Deployment, answered: Job, clip: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deployment.clients("s3").delete_object(Bucket="assets", Key="clip.mp4")
    assert main(["result", answered.job_id, "--overlay"]) == 1
    assert "--media FILE" in capsys.readouterr().err
    assert main(["result", answered.job_id, "--overlay", "--media", str(clip)]) == 0
    assert main(["result", answered.job_id, "--media", str(clip)]) == 2
    assert main(["result", answered.job_id, "--overlay", "--media", "nothing.mp4"]) == 2


def test_what_is_drawn_is_the_version_that_was_read(
    deployment: Deployment, answered: Job, clip: Path, tmp_path: Path
) -> None:
    s3 = deployment.clients("s3")
    version = s3.head_object(Bucket="assets", Key="clip.mp4")["VersionId"]
    s3.put_object(Bucket="assets", Key="clip.mp4", Body=b"another")
    answer(deployment, answered, json.dumps([BOX]), input_version_id=version)
    assert main(["result", answered.job_id, "--overlay"]) == 0
    assert drawn_columns(tmp_path / f"{NAME}.overlay.mp4")


def test_a_job_of_a_stopped_cloud_is_drawn_on_a_named_file(
    deployment: Deployment, answered: Job, clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("COSMOS_BATCH_HOME", str(tmp_path))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://localhost:1")
    kept_here().jobs.keep(deployment)
    assert main(["result", answered.job_id, "--overlay", "--output", "kept/"]) == 1
    assert "--media FILE" in capsys.readouterr().err
    assert main(["result", answered.job_id, "--overlay", "--output", "kept/", "--media", str(clip)]) == 0
    assert drawn_columns(tmp_path / f"kept/{NAME}.overlay.mp4")


def test_a_damaged_file_and_a_generators_document_are_refused(
    deployment: Deployment, answered: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    s3 = deployment.clients("s3")
    s3.put_object(Bucket="assets", Key="clip.mp4", Body=b"no video")
    assert main(["result", answered.job_id, "--overlay"]) == 1
    printed = capsys.readouterr().err
    assert answered.document.key in printed and "InvalidInput" in printed
    s3.put_object(Bucket="assets", Key=answered.document.key, Body=b'{"mode": "t2v"}')
    assert main(["result", answered.job_id, "--overlay"]) == 1
    assert "not the document of a reasoner" in capsys.readouterr().err


def test_run_draws_its_answers_beside_their_documents(
    deployment: Deployment,
    answered: Job,
    clip: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    uri = f"s3://assets/{answered.document.key}"
    monkeypatch.setattr(run, "local_deployment", lambda *_, **__: nullcontext(deployment))
    monkeypatch.setattr(run, "answer", lambda *_: JobResult(document_uri=uri, file_uris=[uri]))
    assert main(["run", str(clip), "--overlay", "--output", "answers/"]) == 0
    names = [f"answers/{NAME}{suffix}" for suffix in (".json", ".sheet.png", ".overlay.mp4")]
    assert capsys.readouterr().out.splitlines() == names
    assert drawn_columns(tmp_path / names[2])
    with Image.open(names[1]) as sheet:
        assert sheet.format == "PNG"
