"""A file of a run is uploaded once for each of its states. Uploads end soon after Ctrl-C, however long files are."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.runs.inputs import InputCounts
from cosmos_batch.cli.runs.local_inputs import LocalUploads
from cosmos_batch.cli.runs.progress_counter import ProgressCounter
from cosmos_batch.planning.runs.selection import Selection


def listed(deployment: Deployment, folder: Path, sizes: list[int]) -> LocalUploads:
    """Return the uploads of files of these sizes."""
    paths = [folder / f"{number}.mp4" for number in range(len(sizes))]
    for path, size in zip(paths, sizes, strict=True):
        path.write_bytes(bytes(size))
    uploads = LocalUploads(deployment.clients("s3"), deployment.asset_roots)
    assert len(list(uploads.files(paths, InputCounts()))) == len(uploads) == len(sizes)
    return uploads


def uploaded_at(deployment: Deployment, path: Path, content: bytes, changed: float) -> LocalUploads:
    """Write a file that was changed last at this time, and return the uploads of its folder."""
    path.write_bytes(content)
    os.utime(path, (changed, changed))
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
    uploads = uploaded_at(deployment, path, b"first", 2_000_000_000.25)
    assert len(uploads) == 1
    uploads.upload()
    assert len(uploaded_at(deployment, path, b"first", 2_000_000_000.25)) == 0
    uploads = uploaded_at(deployment, path, b"other", 2_000_000_000.75)
    assert len(uploads) == 1, "a change within the same second, of the same size"
    uploads.upload()
    assert len(uploaded_at(deployment, path, b"other", 2_000_000_000.75)) == 0


@pytest.mark.parametrize("code", ["403", "404"])
def test_an_object_whose_note_may_not_be_read_or_that_is_gone_is_uploaded_again(
    code: str, deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, s3 = tmp_path / "clip.mp4", deployment.clients("s3")
    uploaded_at(deployment, path, b"first", 2_000_000_000).upload()

    def refused(**_: Any) -> None:
        raise ClientError({"Error": {"Code": code, "Message": ""}}, "HeadObject")

    monkeypatch.setattr(s3, "head_object", refused)
    assert len(uploaded_at(deployment, path, b"first", 2_000_000_000)) == 1


def test_a_fault_of_s3_while_a_note_is_read_is_not_taken_for_a_change(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, s3 = tmp_path / "clip.mp4", deployment.clients("s3")
    uploaded_at(deployment, path, b"first", 2_000_000_000).upload()

    def broken(**_: Any) -> None:
        raise ClientError({"Error": {"Code": "500", "Message": ""}}, "HeadObject")

    monkeypatch.setattr(s3, "head_object", broken)
    with pytest.raises(ClientError, match="500"):
        uploaded_at(deployment, path, b"first", 2_000_000_000)
