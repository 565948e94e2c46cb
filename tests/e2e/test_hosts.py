"""The disks of hosts: workers prove them, share them, and leave nothing on them."""

import json
from pathlib import Path

from tests.e2e.harness import EIGHT_B, TWO_B, App, error_of, wait_for


def start(app: App, clip: Path, pipeline: str) -> str:
    app.upload("clip.mp4", clip)
    script = json.dumps({"text": "fine"})
    return app.start({"pipeline": pipeline, "input": f"s3://{app.assets}/clip.mp4", "prompt": script})


def test_jobs_fail_with_the_mount_that_is_missing(app: App, clip: Path) -> None:
    missing = app.cloud.home / "hosts" / "no-instance-store"
    missing.parent.mkdir(exist_ok=True)
    missing.touch()
    error = error_of(app.ended_under_sweeps(start(app, clip, EIGHT_B)))
    missing.unlink()
    assert error["code"] == "ModelUnavailable"
    assert "/scratch/workers is not on the host's NVMe instance store" in error["message"]
    assert "/dev/nvme0n1p1" in error["message"]


def test_a_worker_works_on_the_hosts_disk_and_leaves_nothing_there(app: App, clip: Path) -> None:
    disk = app.cloud.home / "hosts" / "mnt" / "scratch" / "workers"
    arn = start(app, clip, TWO_B)
    worker = wait_for(lambda: disk.exists() and list(disk.iterdir()), 30, "no folder of a worker")[0].name
    assert app.ended(arn)["status"] == "SUCCEEDED"
    assert app.row(arn).worker == worker
    wait_for(lambda: not list(disk.iterdir()), 30, "the folder outlives its worker")
