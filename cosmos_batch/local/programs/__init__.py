"""The programs of CodeBuild's image that a machine may lack: ``aws``, and ``docker`` with an engine of our own."""

from __future__ import annotations

import sys
from pathlib import Path

_NO_ENGINE = "ERROR: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"


def install(directory: Path, privileged: bool) -> Path:
    """Put the programs into a new directory, and return it. Docker's engine runs in a privileged project only."""
    directory.mkdir()
    docker = (
        f'export DOCKER_CONFIG="{directory / "docker-config"}"\n{_python("docker")}'
        if privileged
        else f"echo {_NO_ENGINE!r} >&2; exit 1"
    )
    for name, line in {"aws": _python("aws"), "docker": docker}.items():
        (directory / name).write_text(f"#!/bin/sh\n{line}\n")
        (directory / name).chmod(0o755)
    return directory


def _python(module: str) -> str:
    # -P: the directory of the build may have a package of our name.
    return f'exec "{sys.executable}" -u -P -m {__name__}.{module} "$@"'
