"""Read a buildspec: its variables and the commands of its phases.

Ignored: runtime versions, ``on-failure``, ``run-as``, artifacts, caches, reports and batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

PHASES = ("install", "pre_build", "build", "post_build")


class BuildspecError(ValueError):
    """A buildspec cannot be read; the message begins with CodeBuild's status code."""


@dataclass(frozen=True)
class PhaseCommands:
    """The commands of a phase, and the commands that run after them also when one failed."""

    commands: tuple[str, ...] = ()
    finally_: tuple[str, ...] = ()


@dataclass(frozen=True)
class Buildspec:
    """A buildspec of version 0.2.

    ``variables`` maps names to values, ``parameters`` to names of Parameter Store, and ``secrets`` to ``id:json-key``.
    """

    phases: dict[str, PhaseCommands]
    variables: dict[str, str]
    parameters: dict[str, str]
    secrets: dict[str, str]


def parse(text: str) -> Buildspec:
    """Read a buildspec, which is YAML or JSON.

    Raises
    ------
    BuildspecError
        It is neither YAML nor JSON, has another version than 0.2, an unknown phase, or a command that is no text.
    """
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise BuildspecError(f"YAML_FILE_ERROR: {error}") from error
    if not isinstance(document, dict) or str(document.get("version")) != "0.2":
        raise BuildspecError("YAML_FILE_ERROR: The buildspec is not a mapping with version 0.2")
    phases = document.get("phases") or {}
    unknown = phases.keys() - set(PHASES)
    if unknown:
        raise BuildspecError(f"YAML_FILE_ERROR: Unknown phase: {', '.join(sorted(unknown))}")
    env = document.get("env") or {}
    return Buildspec(
        phases={name: _phase(phases.get(name) or {}) for name in PHASES},
        variables=_texts(env.get("variables")),
        parameters=_texts(env.get("parameter-store")),
        secrets=_texts(env.get("secrets-manager")),
    )


def _phase(content: dict[str, Any]) -> PhaseCommands:
    return PhaseCommands(_commands(content.get("commands")), _commands(content.get("finally")))


def _commands(value: Any) -> tuple[str, ...]:
    commands = [value] if isinstance(value, str) else value or []
    for command in commands:
        if not isinstance(command, str):
            # A usual mistake: a colon in an unquoted line of YAML makes it a mapping.
            raise BuildspecError(f"YAML_FILE_ERROR: Expected Commands[] to be of string type: found {command!r}")
    return tuple(commands)


def _texts(values: dict[str, Any] | None) -> dict[str, str]:
    return {name: str(value) for name, value in (values or {}).items()}
