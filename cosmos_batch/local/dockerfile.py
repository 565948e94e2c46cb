"""What of a Dockerfile matters when a container is a subprocess: ENTRYPOINT, CMD, ENV and WORKDIR of its last stage."""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from pathlib import Path

from cosmos_batch.local.containers import Image


class DockerfileError(ValueError):
    """A Dockerfile cannot be read; the message names it and the line."""


def read_image(path: Path) -> Image:
    """Read a Dockerfile.

    Variables of ARG and ENV are substituted as Docker does it. A variable that is not known becomes empty.

    Raises
    ------
    DockerfileError
        The file is missing or has no FROM.
    """
    try:
        text = path.read_text()
    except OSError as error:
        raise DockerfileError(f"{path} cannot be read: {error.strerror}") from error
    stages = _Stages()
    for keyword, arguments in _instructions(text):
        stages.apply(keyword, arguments)
    if stages.current is None:
        raise DockerfileError(f"{path} has no FROM, so it describes no image")
    return stages.current.image()


class _Stage:
    def __init__(self, base: _Stage | None, build_arguments: dict[str, str]) -> None:
        self.build_arguments = dict(build_arguments)
        self.environment: dict[str, str] = dict(base.environment) if base else {}
        self.entrypoint: tuple[str, ...] = base.entrypoint if base else ()
        self.command: tuple[str, ...] = base.command if base else ()
        self.workdir: str = base.workdir if base else "/"

    def image(self) -> Image:
        return Image(self.entrypoint, self.command, self.environment, self.workdir)

    def substitute(self, text: str) -> str:
        known = {**self.build_arguments, **self.environment}

        def value(found: re.Match[str]) -> str:
            name, operator, other = found["braced"] or found["plain"], found["operator"], found["other"]
            if operator == ":+":
                return other if known.get(name) else ""
            return known.get(name) or (other if operator == ":-" else "") or ""

        return re.sub(r"\$(?:\{(?P<braced>\w+)(?:(?P<operator>:[-+])(?P<other>[^}]*))?\}|(?P<plain>\w+))", value, text)


class _Stages:
    def __init__(self) -> None:
        self._named: dict[str, _Stage] = {}
        self._global_arguments: dict[str, str] = {}
        self.current: _Stage | None = None

    def apply(self, keyword: str, arguments: str) -> None:
        if keyword == "FROM":
            self._start(arguments)
        elif self.current is None:
            if keyword == "ARG":
                self._global_arguments.update(_pairs(arguments))
        else:
            _apply_to(self.current, keyword, arguments, self._global_arguments)

    def _start(self, arguments: str) -> None:
        words = [word for word in arguments.split() if not word.startswith("--")]
        self.current = _Stage(self._named.get(words[0]), {})
        if len(words) == 3 and words[1].upper() == "AS":
            self._named[words[2]] = self.current


def _apply_to(stage: _Stage, keyword: str, arguments: str, global_arguments: dict[str, str]) -> None:
    if keyword == "ARG":
        for name, value in _pairs(arguments).items():
            stage.build_arguments[name] = stage.substitute(value) if value else global_arguments.get(name, "")
    elif keyword == "ENV":
        stage.environment.update({name: stage.substitute(value) for name, value in _pairs(arguments).items()})
    elif keyword == "WORKDIR":
        stage.workdir = posixpath.join(stage.workdir, stage.substitute(arguments.strip()))
    elif keyword == "ENTRYPOINT":
        # An ENTRYPOINT resets a CMD that came from the base image, and Docker ignores one before it in a stage.
        stage.entrypoint, stage.command = _program(arguments), ()
    elif keyword == "CMD":
        stage.command = _program(arguments)


def _program(arguments: str) -> tuple[str, ...]:
    """Read the exec form, which is JSON, or the shell form, which is anything else."""
    try:
        words = json.loads(arguments)
    except ValueError:
        return ("/bin/sh", "-c", arguments.strip())
    return tuple(words)


def _pairs(arguments: str) -> dict[str, str]:
    """Read ``NAME=value NAME=value``, the old ``NAME value``, or a bare ``NAME``."""
    first = arguments.split(None, 1)[0]
    if "=" not in first:
        name, _, value = arguments.strip().partition(" ")
        return {name: value.strip()}
    words = (word.partition("=") for word in shlex.split(arguments))
    return {name: value for name, _, value in words}


def _instructions(text: str) -> list[tuple[str, str]]:
    """Return the instructions of a Dockerfile with their arguments, comments dropped and continued lines joined."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\s*\n", " ", "\n".join(lines))
    split = (line.strip().split(None, 1) for line in joined.splitlines() if line.strip())
    return [(words[0].upper(), words[1]) for words in split if len(words) == 2]
