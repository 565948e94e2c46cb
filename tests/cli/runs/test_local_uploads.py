"""A file of a run is uploaded once for each of its states. Uploads end soon after Ctrl-C, however long files are."""

import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.runs import local_inputs
from cosmos_batch.cli.runs.inputs import InputCounts
from cosmos_batch.cli.runs.local_inputs import CHANGED, LocalUploads
from cosmos_batch.cli.runs.progress_counter import ProgressCounter
from cosmos_batch.contract.s3 import OBJECT_MARKER
from cosmos_batch.planning.runs.selection import Selection


def listed(deployment: Deployment, folder: Path, sizes: list[int]) -> LocalUploads:
    """Return the uploads of files of these sizes."""
    paths = [folder / f"{number}.mp4" for number in range(len(sizes))]
    for path, size in zip(paths, sizes, strict=True):
        path.write_bytes(bytes(size))
    uploads = LocalUploads(deployment.clients("s3"), deployment.asset_roots)
    assert len(list(uploads.files(paths, InputCounts()))) == len(uploads) == len(sizes)
    return uploads


@pytest.fixture
def heads(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Provide the keys of the objects whose notes are read."""
    keys, s3 = [], deployment.clients("s3")
    real = s3.head_object

    def head_object(**named: Any) -> Any:
        keys.append(named["Key"])
        return real(**named)

    monkeypatch.setattr(s3, "head_object", head_object)
    return keys


def uploads_of(deployment: Deployment, path: Path, content: bytes, changed: float) -> LocalUploads:
    """Write a file that was changed last at this time, in seconds from now, and return the uploads of its folder.

    A time that lies ahead stands for a clock of S3 that is behind.
    """
    path.write_bytes(content)
    os.utime(path, (time.time(), round(time.time()) + changed))
    return again(deployment, path)


def again(deployment: Deployment, path: Path) -> LocalUploads:
    """Return the uploads of a file's folder, where nothing was changed."""
    uploads = LocalUploads(deployment.clients("s3"), deployment.asset_roots)
    assert len(list(uploads.folder(path.parent, Selection(), InputCounts()))) == 1
    return uploads


def test_ctrl_c_ends_uploads_that_are_under_way(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uploads, ended = listed(deployment, tmp_path, [1] * 3), []
    under_way = threading.Semaphore(0)

    def upload(name: str, *_: Any, Callback: Callable[[int], None], **__: Any) -> None:  # noqa: N803 - boto3's name
        if name.endswith("0.mp4"):
            return
        under_way.release()
        try:
            while True:
                Callback(1)
        finally:
            ended.append(Path(name).name)

    def interrupted(_: ProgressCounter) -> None:
        assert under_way.acquire() and under_way.acquire()
        raise KeyboardInterrupt

    monkeypatch.setattr(deployment.clients("s3"), "upload_file", upload)
    monkeypatch.setattr(ProgressCounter, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        uploads.upload()
    assert sorted(ended) == ["1.mp4", "2.mp4"]


def test_boto3_ends_an_upload_whose_callback_raises(deployment: Deployment, tmp_path: Path) -> None:
    uploads = listed(deployment, tmp_path, [20_000_000])
    uploads._given_up.set()
    with pytest.raises(CliError, match="given up"):
        uploads.upload()
    assert deployment.clients("s3").list_objects_v2(Bucket="assets")["KeyCount"] == 0


def test_a_file_that_seems_newer_than_its_object_is_uploaded_once_for_each_of_its_states(
    deployment: Deployment, tmp_path: Path
) -> None:
    # S3 tells whole seconds: a file that is uploaded in the second in which it was written seems newer afterwards.
    path = tmp_path / "clip.mp4"
    uploads = uploads_of(deployment, path, b"first", 100.25)
    assert len(uploads) == 1
    uploads.upload()
    assert len(again(deployment, path)) == 0
    uploads = uploads_of(deployment, path, b"other", 100.75)
    assert len(uploads) == 1, "a change within the same second, of the same size"
    uploads.upload()
    assert len(again(deployment, path)) == 0


def test_an_upload_is_marked_so_that_it_starts_no_job_and_notes_when_its_file_was_changed(
    deployment: Deployment, tmp_path: Path
) -> None:
    uploads_of(deployment, tmp_path / "clip.mp4", b"first", 100.25).upload()
    [stored] = deployment.clients("s3").list_objects_v2(Bucket="assets")["Contents"]
    metadata = deployment.clients("s3").head_object(Bucket="assets", Key=stored["Key"])["Metadata"]
    assert metadata.keys() == {OBJECT_MARKER, CHANGED} and metadata[CHANGED].endswith(".250000+00:00")


def test_notes_are_read_only_of_objects_that_seem_a_little_older_than_their_files(
    deployment: Deployment, tmp_path: Path, heads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "clip.mp4"
    uploads_of(deployment, path, b"first", 7200).upload()
    heads.clear()
    assert len(again(deployment, path)) == 1 and heads == [], "changed two hours after the upload"
    monkeypatch.setattr(local_inputs, "_changed", lambda _: datetime(2020, 1, 1, tzinfo=UTC))
    assert len(again(deployment, path)) == 0 and heads == [], "not changed since the upload"


def test_a_file_of_another_size_than_its_object_is_uploaded_however_old_it_is(
    deployment: Deployment, tmp_path: Path, heads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_inputs, "_changed", lambda _: datetime(2020, 1, 1, tzinfo=UTC))
    uploads_of(deployment, tmp_path / "clip.mp4", b"first", 0).upload()
    heads.clear()
    assert len(uploads_of(deployment, tmp_path / "clip.mp4", b"another", 0)) == 1 and heads == []


@pytest.mark.parametrize("code", ["403", "404"])
def test_an_object_whose_note_may_not_be_read_or_that_is_gone_is_uploaded_again(
    code: str, deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "clip.mp4"
    uploads_of(deployment, path, b"first", 100).upload()
    monkeypatch.setattr(deployment.clients("s3"), "head_object", refusing(code))
    assert len(again(deployment, path)) == 1


def test_a_fault_of_s3_while_a_note_is_read_is_not_taken_for_a_change(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "clip.mp4"
    uploads_of(deployment, path, b"first", 100).upload()
    monkeypatch.setattr(deployment.clients("s3"), "head_object", refusing("500"))
    with pytest.raises(ClientError, match="500"):
        again(deployment, path)


def refusing(code: str) -> Callable[..., None]:
    """Return a call of S3 that fails with this code."""

    def fail(**_: Any) -> None:
        raise ClientError({"Error": {"Code": code, "Message": ""}}, "HeadObject")

    return fail
