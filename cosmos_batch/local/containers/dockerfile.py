"""Read a Dockerfile as far as it applies to a process: ENTRYPOINT, CMD, ENV and WORKDIR of a stage."""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from cosmos_batch.local.containers.images import Image


class DockerfileError(ValueError):
    """A Dockerfile cannot be read; the message names it and the line."""


def read_image(
    path: Path,
    build_arguments: Mapping[str, str] | None = None,
    target: str | None = None,
    base_of: Callable[[str], Image] = lambda _: Image(),
) -> Image:
    """Read a Dockerfile.

    Variables of ARG and ENV are substituted as in Docker. An unknown variable becomes an empty text.

    Parameters
    ----------
    path
        The Dockerfile.
    build_arguments
        Values of ARGs, in place of their defaults.
    target
        The stage to read; by default the last one.
    base_of
        Returns the image of a FROM that names no stage; by default an empty one.

    Raises
    ------
    DockerfileError
        The file is missing, has no FROM, or has no such stage.
    """
    stages = _Stages(build_arguments or {}, base_of)
    for keyword, arguments in instructions(path):
        stages.apply(keyword, arguments)
    if stages.current is None:
        raise DockerfileError(f"{path} has no FROM, so it describes no image")
    return stages.named(target, path).image() if target else stages.current.image()


def instructions(path: Path) -> list[tuple[str, str]]:
    """Return the instructions of a Dockerfile with their arguments, comments dropped and continued lines joined.

    Raises
    ------
    DockerfileError
        The file cannot be read.
    """
    try:
        text = path.read_text()
    except OSError as error:
        raise DockerfileError(f"{path} cannot be read: {error.strerror}") from error
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\s*\n", " ", "\n".join(lines))
    split = (line.strip().split(None, 1) for line in joined.splitlines() if line.strip())
    return [(words[0].upper(), words[1]) for words in split if len(words) == 2]


class _Stage:
    def __init__(self, base: Image) -> None:
        self.build_arguments: dict[str, str] = {}
        self.environment = dict(base.environment)
        self.entrypoint, self.command = tuple(base.entrypoint), tuple(base.command)
        self.workdir = base.workdir

    def image(self) -> Image:
        return Image(self.entrypoint, self.command, self.environment, self.workdir)

    def substitute(self, text: str) -> str:
        return _substitute(text, {**self.build_arguments, **self.environment})


class _Stages:
    def __init__(self, build_arguments: Mapping[str, str], base_of: Callable[[str], Image]) -> None:
        self._named: dict[str, _Stage] = {}
        self._build_arguments, self._base_of = build_arguments, base_of
        self._global_arguments: dict[str, str] = {}
        self.current: _Stage | None = None

    def apply(self, keyword: str, arguments: str) -> None:
        if keyword == "FROM":
            self._start(arguments)
        elif self.current is None:
            if keyword == "ARG":
                self._global_arguments.update(
                    {name: self._build_arguments.get(name, default) for name, default in _pairs(arguments).items()}
                )
        else:
            _apply_to(self.current, keyword, arguments, self._build_arguments, self._global_arguments)

    def named(self, name: str, path: Path) -> _Stage:
        try:
            return self._named[name]
        except KeyError:
            raise DockerfileError(f"{path} has no stage {name}") from None

    def _start(self, arguments: str) -> None:
        words = [_substitute(word, self._global_arguments) for word in arguments.split() if not word.startswith("--")]
        base = self._named.get(words[0])
        self.current = _Stage(base.image() if base else self._base_of(words[0]))
        if len(words) == 3 and words[1].upper() == "AS":
            self._named[words[2]] = self.current


def _substitute(text: str, known: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        name, operator, other = match["braced"] or match["plain"], match["operator"], match["other"]
        if operator == ":+":
            return other if known.get(name) else ""
        return known.get(name) or (other if operator == ":-" else "") or ""

    return re.sub(r"\$(?:\{(?P<braced>\w+)(?:(?P<operator>:[-+])(?P<other>[^}]*))?\}|(?P<plain>\w+))", value, text)


def _apply_to(
    stage: _Stage, keyword: str, arguments: str, build_arguments: Mapping[str, str], outside: Mapping[str, str]
) -> None:
    if keyword == "ARG":
        for name, default in _pairs(arguments).items():
            stage.build_arguments[name] = (
                build_arguments.get(name) or stage.substitute(default) or outside.get(name, "")
            )
    elif keyword == "ENV":
        stage.environment.update({name: stage.substitute(value) for name, value in _pairs(arguments).items()})
    elif keyword == "WORKDIR":
        stage.workdir = posixpath.join(stage.workdir, stage.substitute(arguments.strip()))
    elif keyword == "ENTRYPOINT":
        # An ENTRYPOINT resets the CMD of the base image, and Docker ignores a CMD before it in the same stage.
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
