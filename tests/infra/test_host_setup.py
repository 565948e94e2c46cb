"""`host_setup.sh` runs with stubs in place of a host's programs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from infra.constructs.gpu_hosts import SETUP

STORE = "Amazon EC2 NVMe Instance Storage"
ROOT_DISK = "/dev/nvme0n1 Amazon Elastic Block Store"


class Host:
    """A folder that contains `/etc`, `/mnt` and `/var`, and stubs that record how they were called."""

    def __init__(
        self, folder: Path, disks: list[str], formatted: bool = False, broken: str = "", docker_runs: bool = False
    ) -> None:
        self.folder, self.calls = folder, folder / "calls"
        (folder / "etc" / "ecs").mkdir(parents=True)
        (folder / "bin").mkdir()
        self.calls.touch()
        listing = "\n".join([ROOT_DISK, *disks])
        self._stub("lsblk", f'case "$*" in *FSTYPE*) echo "{"xfs" if formatted else ""}";; *) echo "{listing}";; esac')
        self._stub("systemctl", f'[ "$*" = "is-active --quiet docker" ] && exit {0 if docker_runs else 3}')
        for name in ("mkfs.xfs", "mount", "install"):
            self._stub(name, f'echo "{name} $*" >> {self.calls}' + ("; exit 1" if name == broken else ""))

    def _stub(self, name: str, body: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def set_up(self) -> int:
        script = SETUP.read_text()
        for root in ("/etc/", "/mnt/", "/var/"):
            script = script.replace(root, f"{self.folder}{root}")
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        answer = subprocess.run(["bash", "-c", script], env={"PATH": path}, capture_output=True, text=True, check=False)
        return answer.returncode

    @property
    def called(self) -> list[str]:
        return [line.replace(str(self.folder), "") for line in self.calls.read_text().splitlines()]

    @property
    def ecs_config(self) -> list[str]:
        return (self.folder / "etc" / "ecs" / "ecs.config").read_text().splitlines()


MOUNTED = [
    "mount -o noatime /dev/nvme1n1 /mnt/scratch",
    "install -d -o 1000 -g 1000 /mnt/scratch/workers /mnt/scratch/models",
]
IMAGES = "mount --bind /mnt/scratch/docker /var/lib/docker"


def test_one_disk_is_formatted_and_mounted(tmp_path: Path) -> None:
    host = Host(tmp_path, [f"/dev/nvme1n1 {STORE}"])
    assert host.set_up() == 0
    assert host.called == ["mkfs.xfs -q /dev/nvme1n1", *MOUNTED, IMAGES]


def test_of_several_disks_the_first_is_used(tmp_path: Path) -> None:
    host = Host(tmp_path, [f"/dev/nvme1n1 {STORE}", f"/dev/nvme2n1 {STORE}"])
    assert host.set_up() == 0
    assert host.called == ["mkfs.xfs -q /dev/nvme1n1", *MOUNTED, IMAGES]


def test_a_formatted_disk_keeps_what_it_has(tmp_path: Path) -> None:
    host = Host(tmp_path, [f"/dev/nvme1n1 {STORE}"], formatted=True)
    assert host.set_up() == 0
    assert host.called == [*MOUNTED, IMAGES]


def test_images_are_not_moved_while_docker_runs(tmp_path: Path) -> None:
    host = Host(tmp_path, [f"/dev/nvme1n1 {STORE}"], formatted=True, docker_runs=True)
    assert host.set_up() == 0
    assert host.called == MOUNTED


def test_without_an_instance_store_nothing_is_mounted(tmp_path: Path) -> None:
    host = Host(tmp_path, [])
    assert host.set_up() == 1
    assert host.called == []


@pytest.mark.parametrize("broken", ["mkfs.xfs", "mount"])
def test_a_failed_setup_creates_no_folder_for_workers(tmp_path: Path, broken: str) -> None:
    host = Host(tmp_path, [f"/dev/nvme1n1 {STORE}"], broken=broken)
    assert host.set_up() != 0
    assert not [call for call in host.called if call.startswith("install")]


def test_ecs_lets_a_worker_stop_cleanly_pulls_an_image_once_and_removes_old_images(tmp_path: Path) -> None:
    host = Host(tmp_path, [])
    host.set_up()  # also where there is no disk
    assert host.ecs_config == ["ECS_CONTAINER_STOP_TIMEOUT=120s", "ECS_IMAGE_PULL_BEHAVIOR=once"]


def test_the_script_passes_shellcheck() -> None:
    shellcheck = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert shellcheck is not None, "run scripts/setup.sh"
    answer = subprocess.run([shellcheck, str(SETUP)], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout
