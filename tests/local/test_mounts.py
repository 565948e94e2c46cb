"""What a job is told of its mounts is what the kernel would say of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cosmos_batch.local import backends, runtime
from cosmos_batch.local.containers import mounts
from cosmos_batch.worker.mounts import Mount, read_table

HOST = {
    "volumes": [{"name": "scratch", "host": {"sourcePath": "/mnt/scratch/workers"}}],
    "mountPoints": [{"sourceVolume": "scratch", "containerPath": "/mnt/scratch"}],
}


@pytest.fixture(params=["home", "a home\twith\\040"])
def home(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a cloud, also where the kernel escapes its path."""
    cloud = runtime.CloudRuntime(tmp_path / request.param, port=0, cloud_id="test", stop_grace=1.0)
    monkeypatch.setattr(runtime, "_current", cloud)
    return cloud.home


@pytest.fixture
def file_system() -> Iterator[str]:
    made = backends.efs().create_file_system(
        "a token",
        performance_mode="generalPurpose",
        encrypted=True,
        kms_key_id="",
        throughput_mode="elastic",
        provisioned_throughput_in_mibps=0,
        availability_zone_name="",
        backup=False,
        tags=[{"Key": "Name", "Value": "CosmosBatch/ModelCache"}],
    )
    yield made.file_system_id
    backends.efs().delete_file_system(made.file_system_id)


def test_a_folder_of_a_host_lies_on_a_disk_of_its_own(home: Path) -> None:
    mounted = mounts.places_of(HOST)["/mnt/scratch"]
    assert mounted == home / "hosts" / "mnt" / "scratch" / "workers" and mounted.is_dir()
    assert read_table(mounts.table_of(HOST)) == [Mount("/workers", str(mounted), "xfs", "/dev/nvme1n1")]


def test_without_an_instance_store_it_lies_on_the_root_volume(home: Path) -> None:
    mounted = mounts.places_of(HOST)["/mnt/scratch"]
    (home / "hosts" / "no-instance-store").touch()
    assert read_table(mounts.table_of(HOST)) == [Mount("/mnt/scratch/workers", str(mounted), "xfs", "/dev/nvme0n1p1")]


def test_efs_is_nfs_and_lies_below_the_name_of_its_file_system(home: Path, file_system: str) -> None:
    properties = {
        "volumes": [{"name": "models", "efsVolumeConfiguration": {"fileSystemId": file_system}}, *HOST["volumes"]],
        "mountPoints": [{"sourceVolume": "models", "containerPath": "/mnt/models"}, *HOST["mountPoints"]],
    }
    places = mounts.places_of(properties)
    assert places["/mnt/models"] == home / "efs" / "CosmosBatch_ModelCache"
    models, scratch = read_table(mounts.table_of(properties))
    assert models == Mount("/", str(places["/mnt/models"]), "nfs4", "127.0.0.1:/")
    assert (scratch.point, scratch.file_system) == (str(places["/mnt/scratch"]), "xfs")


def test_a_job_without_mounts_has_an_empty_table(home: Path) -> None:
    assert mounts.table_of({}) == ""
