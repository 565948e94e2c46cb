"""A worker checks its folders by the kernel's mount table."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.settings import WorkerSettings
from cosmos_batch.worker.mounts import Mount, check_mounts, read_table

# As in a container of an ECS host: the image's layers, then EFS by its TLS proxy, then a folder of the NVMe disk.
OVERLAY = "612 503 0:55 / / rw,relatime master:190 - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/AB\n"
EFS = "640 612 0:60 / /mnt/models rw,relatime - nfs4 127.0.0.1:/ rw,vers=4.1,rsize=1048576,port=20087\n"
NVME = "641 612 259:4 /workers /mnt/scratch rw,noatime - xfs /dev/nvme1n1 rw,attr2\n"
NVME_MODELS = "642 612 259:4 /models /mnt/models rw,noatime - xfs /dev/nvme1n1 rw,attr2\n"
# What Docker makes of a host path that is not there: a folder of the root volume.
ROOT_VOLUME = "641 612 259:1 /mnt/scratch/workers /mnt/scratch rw,noatime - xfs /dev/nvme0n1p1 rw,attr2\n"


def environment(table: Path, on: str | None) -> WorkerEnvironment:
    return WorkerEnvironment(
        aws_batch_job_id="job",
        pipeline="cosmos-reason2-2b",
        model="nvidia/Cosmos-Reason2-2B",
        engine="transformers",
        queue_url="q",
        state_table="t",
        state_bucket="s",
        model_bucket="m",
        model_store="/mnt/models",
        model_store_on=on,
        scratch="/mnt/scratch" if on else None,
        mount_table=str(table),
        worker=WorkerSettings(),
    )


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "mountinfo"


@pytest.mark.parametrize(("on", "lines"), [("efs", EFS + NVME), ("nvme", NVME_MODELS + NVME)])
def test_correct_mounts_are_accepted(table: Path, on: str, lines: str) -> None:
    table.write_text(OVERLAY + lines)
    check_mounts(environment(table, on))


def test_the_last_mount_at_a_point_counts(table: Path) -> None:
    table.write_text(OVERLAY + EFS + ROOT_VOLUME + NVME)
    check_mounts(environment(table, "efs"))


@pytest.mark.parametrize(
    ("on", "lines", "words"),
    [
        ("efs", NVME, ["/mnt/models is not on EFS", "nothing is mounted", "mount target", "2049"]),
        ("efs", NVME_MODELS + NVME, ["/mnt/models is not on EFS", "/models of /dev/nvme1n1 (xfs)"]),
        ("efs", EFS, ["/mnt/scratch is not on the host's NVMe", "nothing is mounted"]),
        ("efs", EFS + ROOT_VOLUME, ["/mnt/scratch is not on the host's NVMe", "/dev/nvme0n1p1", "cloud-init"]),
        ("efs", EFS + NVME + ROOT_VOLUME, ["/mnt/scratch is not on the host's NVMe"]),
        ("efs", EFS + NVME.replace("xfs /dev/nvme1n1", "tmpfs tmpfs"), ["/mnt/scratch", "(tmpfs)"]),
        ("nvme", EFS + NVME.replace("/mnt/scratch", "/elsewhere"), ["/mnt/scratch", "nothing is mounted"]),
    ],
)
def test_a_wrong_mount_is_refused_and_named(table: Path, on: str, lines: str, words: list[str]) -> None:
    table.write_text(OVERLAY + lines)
    with pytest.raises(Failure) as raised:
        check_mounts(environment(table, on))
    error = raised.value.error
    assert error.code == "ModelUnavailable" and error.retryable  # another host may have it
    for word in words:
        assert word in f"{error.message} {error.remedy}"


def test_without_an_expected_disk_nothing_is_checked(table: Path) -> None:
    check_mounts(environment(table, None))


def escaped(path: str) -> str:
    return "".join(f"\\{ord(one):03o}" if one in " \t\n\\" else one for one in path)


# What the kernel gives out: no NUL, and no lone surrogate but those that stand for bytes that are no UTF-8.
PATHS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1).map(lambda t: f"/{t}")


@given(root=PATHS, point=PATHS, optional=st.lists(st.sampled_from(["shared:1", "master:2", "unbindable"])))
def test_any_path_in_the_mount_table_is_decoded(root: str, point: str, optional: list[str]) -> None:
    fields = ["36", "35", "98:0", escaped(root), escaped(point), "rw", *optional, "-", "xfs", "/dev/nvme1n1", "rw"]
    assert read_table(" ".join(fields) + "\n") == [Mount(root, point, "xfs", "/dev/nvme1n1")]


@given(st.text())
def test_any_text_as_mount_table_is_read_without_an_error(text: str) -> None:
    read_table(text)
