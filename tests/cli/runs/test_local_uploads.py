"""Uploads of a run's files end soon after Ctrl-C, however long the files are."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.runs.inputs import InputCounts
from cosmos_batch.cli.runs.local_inputs import LocalUploads
from cosmos_batch.cli.runs.progress_counter import ProgressCounter


def listed(deployment: Deployment, folder: Path, sizes: list[int]) -> LocalUploads:
    """Return the uploads of files of these sizes."""
    paths = [folder / f"{number}.mp4" for number in range(len(sizes))]
    for path, size in zip(paths, sizes, strict=True):
        path.write_bytes(bytes(size))
    uploads = LocalUploads(deployment.clients("s3"), deployment.asset_roots)
    assert len(list(uploads.files(paths, InputCounts()))) == len(uploads) == len(sizes)
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
