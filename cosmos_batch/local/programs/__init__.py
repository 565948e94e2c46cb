"""Stand-ins for programs of CodeBuild's image: ``aws``, and ``docker``, which runs no engine."""

from __future__ import annotations

import sys
from pathlib import Path

_NO_ENGINE = "ERROR: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"


def install(directory: Path, privileged: bool) -> Path:
    """Write the programs into a new directory, and return it. ``docker`` works in a privileged project alone."""
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
    # -P: the directory of the build, which may have a package of the same name, stays off the path.
    return f'exec "{sys.executable}" -u -P -m {__name__}.{module} "$@"'
