"""Workers check their host's disks, leave no files on them, and give their jobs back when a host is taken away."""

import json
from pathlib import Path

import pytest

from cosmos_batch.cli.worker_failures import find_worker_failure
from tests.support.deployed_app import EIGHT_B, TWO_B, App, wait_for
from tests.support.metadata_service import metadata_service


def start(app: App, clip: Path, pipeline: str) -> str:
    app.upload("clip.mp4", clip)
    script = json.dumps({"text": "fine"})
    return app.start({"pipeline": pipeline, "input": f"s3://{app.assets}/clip.mp4", "prompt": script})


@pytest.mark.slow  # a host starts twice
def test_jobs_wait_for_a_host_with_its_disk_and_say_so(app: App, clip: Path) -> None:
    """Another host may have the missing disk, so the job is not failed, and is answered as soon as there is one."""
    missing = app.cloud.home / "hosts" / "no-instance-store"
    missing.parent.mkdir(exist_ok=True)
    missing.touch()
    arn = start(app, clip, EIGHT_B)
    trouble = wait_for(lambda: find_worker_failure(app.workers(EIGHT_B)), 120, "nothing is said while it waits")
    missing.unlink()
    assert trouble.error.code == "ModelUnavailable"
    assert "/scratch/workers is not on the host's NVMe instance store" in trouble.error.message
    assert "/dev/nvme0n1p1" in trouble.error.message
    assert app.ended_under_sweeps(arn)["status"] == "SUCCEEDED"


def test_a_worker_works_on_the_hosts_disk_and_leaves_nothing_there(app: App, clip: Path) -> None:
    disk = app.cloud.home / "hosts" / "mnt" / "scratch" / "workers"
    arn = start(app, clip, TWO_B)
    wait_for(lambda: app.jobs.get(arn.rpartition(":")[2]) and app.row(arn).worker, 120, "no worker has it")
    worker = app.row(arn).worker
    assert worker is not None and (disk / worker).is_dir()
    assert app.ended(arn)["status"] == "SUCCEEDED"
    assert app.row(arn).worker == worker
    wait_for(lambda: not (disk / worker).exists(), 120, "the folder outlives its worker")


def test_a_spot_notice_gives_the_job_back_and_spends_no_attempt(app: App, picture: Path) -> None:
    app.upload("p.png", picture)
    with metadata_service() as service:
        # The variables of an image are stronger than those with which the local cloud turns the service off.
        app.cloud.register_images(
            {
                uri: {**image, "environment": {**image["environment"], **service.variables}}
                for uri, image in app.cloud.images().items()
            }
        )
        script = json.dumps({"seconds": 60})
        arn = app.start({"pipeline": TWO_B, "input": f"s3://{app.assets}/p.png", "prompt": script})
        wait_for(lambda: (row := app.jobs.get(arn.rpartition(":")[2])) and row.open_attempt, 120, "never ran")
        first = app.row(arn).worker
        assert first is not None
        service.notice = True
        wait_for(lambda: (row := app.row(arn)).open_attempt is None or row.worker != first, 120, "it was not heard")
        row = app.row(arn)  # another worker may have begun on it already
        assert (row.attempts, row.suspect) == (0 if row.open_attempt is None else 1, False)
        service.notice = False
        wait_for(lambda: app.row(arn).open_attempt, 120, "no other worker has taken it")
        assert app.row(arn).worker != first
        worker = app.workers().get(first)
        assert worker is not None and (worker.state, worker.error) == ("ENDED", None)
        app.client("stepfunctions").stop_execution(executionArn=arn)
