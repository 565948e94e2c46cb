"""What a person asks on the command line, checked before anything is started or sent."""

import argparse
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from cosmos_batch.cli import input_checks
from cosmos_batch.cli.errors import CliError
from cosmos_batch.contract.error import explain
from cosmos_batch.contract.parameters import NAMES, Parameters, read_parameters


@dataclass(frozen=True)
class ReasonerRequest:
    """A prompt (none: the task's own) and how to answer it. Further files may be of this machine yet."""

    prompt: str | None
    system_prompt: str | None = None
    parameters: Parameters = field(default_factory=Parameters)


def read_reasoner_request(arguments: argparse.Namespace) -> ReasonerRequest:
    """Of the options. Raises CliError where one of them is wrong."""
    parameters = _parameters(arguments)
    blank = not (arguments.prompt or "").strip()
    prompt = None if blank and parameters.task is not None else input_checks.checked_prompt(arguments.prompt)
    return ReasonerRequest(prompt, arguments.system_prompt or None, parameters)


def _parameters(arguments: argparse.Namespace) -> Parameters:
    said = {alias: value for alias, name in NAMES.items() if (value := getattr(arguments, name)) is not None}
    for name in said.get("moreInputs", []):
        input_checks.checked(name)
    if "jsonSchema" in said:
        said["jsonSchema"] = _text(said["jsonSchema"])
    try:
        return read_parameters(said)
    except ValidationError as error:
        raise CliError(explain(error), "See docs/reasoner.md for what each option takes.") from error


def _text(name: str) -> str:
    try:
        return Path(name).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"--json-schema: {name} cannot be read: {error}.", "Name a file of JSON.") from error
