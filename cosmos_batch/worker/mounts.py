"""Checks that the model store and the scratch folder are on the disks where they should be.

If a mount of the host has failed, the folder is there all the same, because Docker creates a missing host path on the
root volume. Only the kernel's mount table shows the difference; proc_pid_mountinfo(5) has its format.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.contract.error import Failure


@dataclass(frozen=True)
class Mount:
    """A line of the mount table: the folder `root` of the file system on `source` is mounted at `point`."""

    root: str
    point: str
    file_system: str
    source: str


def read_table(text: str) -> list[Mount]:
    """Return the mounts in the order in which they were made. Lines of another form are left out."""
    return [mount for line in text.split("\n") if (mount := _read_line(line)) is not None]


def _read_line(line: str) -> Mount | None:
    # 36 35 98:0 /root /point rw,noatime master:1 - ext3 /dev/sda1 rw: any number of fields may stand before the dash.
    before, dash, after = line.partition(" - ")
    fields, ending = before.split(" "), after.split(" ")
    if not dash or len(fields) < 6 or len(ending) < 2:
        return None
    return Mount(_plain(fields[3]), _plain(fields[4]), ending[0], _plain(ending[1]))


def _plain(text: str) -> str:
    """Decode a path. The kernel writes spaces, tabs, line ends and backslashes as octal escapes such as 040."""
    raw = text.encode("utf-8", "surrogateescape")
    plain = re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match.group(1), 8) & 0xFF]), raw)
    return plain.decode("utf-8", "surrogateescape")


def check_mounts(environment: WorkerEnvironment) -> None:
    """Raise Failure (ModelUnavailable) if a folder is not on its disk."""
    if environment.model_store_on is None:
        return  # a person's own machine, where any folder is fine
    text = Path(environment.mount_table).read_bytes().decode("utf-8", "surrogateescape")
    at = {mount.point: mount for mount in read_table(text)}  # only the last of several mounts at one point is visible
    if environment.model_store_on == "efs":
        _check_efs(environment.model_store, at.get(environment.model_store))
    else:
        _check_disk(environment.model_store, at.get(environment.model_store))
    if environment.scratch is not None:
        _check_disk(environment.scratch, at.get(environment.scratch))


def _check_efs(path: str, mount: Mount | None) -> None:
    if mount is None or mount.file_system != "nfs4":
        raise Failure(
            "ModelUnavailable",
            f"The model store {path} is not on EFS: {_description(mount)}.",
            "Check that the file system has a mount target in each zone of the workers, that its security group lets "
            "them in on port 2049, and that their role may mount its access point.",
            retryable=True,
        )


def _check_disk(path: str, mount: Mount | None) -> None:
    # A folder of the disk at /mnt/scratch has a root such as /workers, one of the root volume the host's whole path.
    if mount is None or mount.root.count("/") > 1 or mount.file_system in ("overlay", "tmpfs"):
        raise Failure(
            "ModelUnavailable",
            f"{path} is not on the host's NVMe instance store: {_description(mount)}.",
            "Choose instance types that have one, as all of the catalogue do; if this one has, see the host's "
            "/var/log/cloud-init-output.log for why it was not formatted or mounted.",
            retryable=True,
        )


def _description(mount: Mount | None) -> str:
    if mount is None:
        return "nothing is mounted there"
    return f"{mount.root} of {mount.source} ({mount.file_system}) is mounted there"
