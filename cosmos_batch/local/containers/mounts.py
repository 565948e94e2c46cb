"""Volumes of a container without root, Docker or user namespaces: paths are rewritten to directories of the home.

See docs/decisions/010-local-mounts-are-rewritten-paths.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cosmos_batch.local import backends, runtime


def places_of(properties: Mapping[str, Any]) -> dict[str, Path]:
    """Return the directory behind each container path that the container properties mount. The directories exist."""
    volumes = {volume["name"]: _directory(volume) for volume in properties.get("volumes", [])}
    places = {
        mount["containerPath"].rstrip("/"): volumes[mount["sourceVolume"]]
        for mount in properties.get("mountPoints", [])
    }
    for directory in places.values():
        directory.mkdir(parents=True, exist_ok=True)
    return places


def rewrite(value: str, places: Mapping[str, Path]) -> str:
    """Return ``value`` with a mounted path, as a whole or as a parent, replaced by the directory behind it."""
    for container_path in sorted(places, key=len, reverse=True):
        if value == container_path or value.startswith(container_path + "/"):
            return str(places[container_path]) + value[len(container_path) :]
    return value


def table_of(properties: Mapping[str, Any]) -> str:
    """Return what the kernel's mount table of the container would say of its mounts, with the rewritten paths.

    A host's folder lies on a disk of its own, mounted at the folder's parent. Where the file ``no-instance-store`` lies
    below ``hosts``, these hosts have no such disk, and the folder is one of the root volume.
    """
    volumes = {volume["name"]: volume for volume in properties.get("volumes", [])}
    lines = []
    for number, mount in enumerate(properties.get("mountPoints", []), start=100):
        volume = volumes[mount["sourceVolume"]]
        place = _escaped(str(_directory(volume)))
        lines.append(f"{number} 1 0:{number} {_seen_as(volume)[0]} {place} rw,relatime - {_seen_as(volume)[1]} rw")
    return "".join(f"{line}\n" for line in lines)


def _seen_as(volume: Mapping[str, Any]) -> tuple[str, str]:
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

    A file system is known by its Name tag, because its id changes whenever the cloud starts anew and its files stay.
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
