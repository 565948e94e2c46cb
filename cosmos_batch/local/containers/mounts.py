"""Volumes of a container without root, Docker or user namespaces: paths are rewritten to directories of the home.

Decision 010 (docs/decisions) has the reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cosmos_batch.local import backends, runtime


def directories_of(properties: Mapping[str, Any]) -> dict[str, Path]:
    """Create the directory of each path that the container properties mount; return them by container path."""
    volumes = {volume["name"]: _directory(volume) for volume in properties.get("volumes", [])}
    directories = {
        mount["containerPath"].rstrip("/"): volumes[mount["sourceVolume"]]
        for mount in properties.get("mountPoints", [])
    }
    for directory in directories.values():
        directory.mkdir(parents=True, exist_ok=True)
    return directories


def rewrite(value: str, directories: Mapping[str, Path]) -> str:
    """Replace a mounted path at the beginning of ``value`` by its directory; return other values unchanged."""
    for container_path in sorted(directories, key=len, reverse=True):
        if value == container_path or value.startswith(container_path + "/"):
            return str(directories[container_path]) + value[len(container_path) :]
    return value


def table_of(properties: Mapping[str, Any]) -> str:
    """Return the mounts of a container in the format of ``/proc/self/mountinfo``, with the rewritten paths.

    A folder of the host is shown on a disk of its own that is mounted at the parent of the folder. If ``hosts`` has the
    file ``no-instance-store``, the hosts have no such disk, and the folder is shown on the root volume.
    """
    volumes = {volume["name"]: volume for volume in properties.get("volumes", [])}
    lines = []
    for number, mount in enumerate(properties.get("mountPoints", []), start=100):
        volume = volumes[mount["sourceVolume"]]
        point = _escaped(str(_directory(volume)))
        lines.append(
            f"{number} 1 0:{number} {_file_system(volume)[0]} {point} rw,relatime - {_file_system(volume)[1]} rw"
        )
    return "".join(f"{line}\n" for line in lines)


def _file_system(volume: Mapping[str, Any]) -> tuple[str, str]:
    """Return the root within the file system, then the file system's type and source."""
    if "efsVolumeConfiguration" in volume:
        return "/", "nfs4 127.0.0.1:/"
    path = volume.get("host", {}).get("sourcePath", "/")
    if (runtime.current().home / "hosts" / "no-instance-store").exists():
        return _escaped(path), "xfs /dev/nvme0n1p1"
    return _escaped("/" + path.rsplit("/", 1)[-1]), "xfs /dev/nvme1n1"


def _escaped(path: str) -> str:
    return path.replace("\\", "\\134").replace(" ", "\\040").replace("\t", "\\011").replace("\n", "\\012")


def _directory(volume: Mapping[str, Any]) -> Path:
    home = runtime.current().home
    if "efsVolumeConfiguration" in volume:
        return home / "efs" / _efs_directory(volume["efsVolumeConfiguration"])
    host = volume.get("host", {}).get("sourcePath", f"/unnamed/{volume['name']}")
    return home / "hosts" / host.strip("/")


def _efs_directory(configuration: Mapping[str, Any]) -> Path:
    """Return the path of the mounted directory below ``efs``.

    The Name tag of a file system names its directory: its id changes at each start of the cloud, and its files stay.
    """
    efs = backends.efs()
    file_system_id = configuration["fileSystemId"]
    tags = efs.tagging_service.get_tag_dict_for_resource(file_system_id)
    access_point_id = configuration.get("authorizationConfig", {}).get("accessPointId")
    if access_point_id:
        root = (efs.access_points[access_point_id].root_directory or {}).get("Path", "/")
    else:
        root = configuration.get("rootDirectory", "/")
    return Path(tags.get("Name", file_system_id).replace("/", "_")) / root.strip("/")
