"""A deployment with generators, and files of this machine for them."""

import json
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.main import main
from cosmos_batch.planning.requests import read_request
from tests.cli.conftest import PIPELINE, FakeStepFunctions
from tests.support import media_files

NANO, TO_IMAGE = "cosmos3-nano", "cosmos3-super-text2image"


def video_bytes(folder: Path, frames: int) -> bytes:
    return media_files.video(folder / "video.mp4", frames=frames, width=64, height=48).read_bytes()


@pytest.fixture
def omni(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Deployment:
    """Provide a deployment with generators beside the reasoner."""
    changes = {"pipelines": [PIPELINE, NANO, TO_IMAGE], "asset_roots": ["assets", "my-bucket"]}
    with_generators = Deployment(**{**vars(deployment), **changes})
    s3 = deployment.clients("s3")
    s3.create_bucket(Bucket="my-bucket")
    for bucket, key in (("assets", "seg.mp4"), ("my-bucket", "depth.mp4")):
        s3.put_object(Bucket=bucket, Key=key, Body=video_bytes(tmp_path_factory.mktemp("objects"), 40))
    monkeypatch.setattr(deployments, "find", lambda: with_generators)
    return with_generators


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Provide a folder with a file of each kind. Of these, the content of videos alone is read before an upload."""
    for name in ("first.png", "moves.json", "notes.txt"):
        (tmp_path / name).write_bytes(b"content")
    (tmp_path / "fake.mp4").write_bytes(b"%PDF-1.7 and so on")
    for name, frames in {"clip.mp4": 40, "depth.mp4": 40, "short.mp4": 3, "seg.mp4": 12}.items():
        media_files.video(tmp_path / name, frames=frames, width=64, height=48)
    return tmp_path


def submitted(stepfunctions: FakeStepFunctions, *options: str) -> dict[str, Any]:
    """Return the input of the execution that a command starts, which `plan` reads."""
    assert main(["generate", "--submit", *options]) == 0
    sent: dict[str, Any] = json.loads(stepfunctions.started[-1]["input"])
    read_request(sent)
    return sent
