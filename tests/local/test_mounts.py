"""The mount table of a job has the format of the kernel's ``/proc/self/mountinfo``."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cosmos_batch.local import backends, runtime
from cosmos_batch.local.containers import mounts

HOST = {
    "volumes": [{"name": "scratch", "host": {"sourcePath": "/mnt/scratch/jobs"}}],
    "mountPoints": [{"sourceVolume": "scratch", "containerPath": "/mnt/scratch"}],
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make this process that of a cloud, and return the folder of the cloud's files."""
    cloud = runtime.CloudRuntime(tmp_path, port=0, cloud_id="test", stop_grace=1.0)
    monkeypatch.setattr(runtime, "_current", cloud)
    return cloud.home


@pytest.fixture
def file_system() -> Iterator[str]:
    created = backends.efs().create_file_system(
        "a token",
        performance_mode="generalPurpose",
        encrypted=True,
        kms_key_id="",
        throughput_mode="elastic",
        provisioned_throughput_in_mibps=0,
        availability_zone_name="",
        backup=False,
        tags=[{"Key": "Name", "Value": "App/Models"}],
    )
    yield created.file_system_id
    backends.efs().delete_file_system(created.file_system_id)


def mount_lines(properties: dict[str, object]) -> list[tuple[str, str, str, str]]:
    """Return root, mount point, file system type and source of each line of a container's mount table."""
    lines = [line.split(" ") for line in mounts.table_of(properties).splitlines()]
    return [(fields[3], fields[4], fields[7], fields[8]) for fields in lines]


def test_a_host_folder_lies_on_a_disk_of_its_own(home: Path) -> None:
    folder = mounts.directories_of(HOST)["/mnt/scratch"]
    assert folder == home / "hosts" / "mnt" / "scratch" / "jobs" and folder.is_dir()
    assert mount_lines(HOST) == [("/jobs", str(folder), "xfs", "/dev/nvme1n1")]


def test_without_an_instance_store_a_host_folder_lies_on_the_root_volume(home: Path) -> None:
    folder = mounts.directories_of(HOST)["/mnt/scratch"]
    (home / "hosts" / "no-instance-store").touch()
    assert mount_lines(HOST) == [("/mnt/scratch/jobs", str(folder), "xfs", "/dev/nvme0n1p1")]


def test_efs_is_nfs_and_lies_below_the_name_of_its_file_system(home: Path, file_system: str) -> None:
    properties = {
        "volumes": [{"name": "models", "efsVolumeConfiguration": {"fileSystemId": file_system}}, *HOST["volumes"]],
        "mountPoints": [{"sourceVolume": "models", "containerPath": "/mnt/models"}, *HOST["mountPoints"]],
    }
    folders = mounts.directories_of(properties)
    assert folders["/mnt/models"] == home / "efs" / "App_Models"
    models, scratch = mount_lines(properties)
    assert models == ("/", str(folders["/mnt/models"]), "nfs4", "127.0.0.1:/")
    assert scratch[1:3] == (str(folders["/mnt/scratch"]), "xfs")


def test_paths_are_escaped_as_the_kernel_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud = runtime.CloudRuntime(tmp_path / "a home\twith\\040", port=0, cloud_id="test", stop_grace=1.0)
    monkeypatch.setattr(runtime, "_current", cloud)
    mounts.directories_of(HOST)
    [(_, point, _, _)] = mount_lines(HOST)
    assert point.endswith("/a\\040home\\011with\\134040/hosts/mnt/scratch/jobs")


def test_a_job_without_mounts_has_an_empty_table(home: Path) -> None:
    assert mounts.table_of({}) == ""
