"""Read what a person asks a reasoner on the command line, and check it before anything is started or sent."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cosmos_batch.cli.errors import WrongCall, file_problem
from cosmos_batch.cli.input_checks import checked_file, checked_prompt
from cosmos_batch.cli.prompt_files import read_question
from cosmos_batch.contract.error import explain
from cosmos_batch.contract.parameters import NAMES, Parameters, read_parameters


@dataclass(frozen=True)
class ReasonerRequest:
    """A prompt (None: the task's own) and how to answer it. Further inputs may be files of this machine."""

    prompt: str | None
    system_prompt: str | None = None
    parameters: Parameters = field(default_factory=Parameters)


def read_reasoner_request(prompt: str | None, system_prompt: str | None, options: Mapping[str, Any]) -> ReasonerRequest:
    """Read the options of `reasoner_options`, by the names of their parameters. Raises WrongCall."""
    prompt, system_prompt = read_question(prompt, options.get("prompt_file"), system_prompt)
    parameters = _parameters(options)
    is_tasks_own = prompt is None and parameters.task is not None
    return ReasonerRequest(None if is_tasks_own else checked_prompt(prompt), system_prompt or None, parameters)


def _parameters(options: Mapping[str, Any]) -> Parameters:
    values = {alias: value for alias, name in NAMES.items() if (value := options.get(name)) not in (None, ())}
    if "moreInputs" in values:
        values["moreInputs"] = list(values["moreInputs"])
        for name in values["moreInputs"]:
            checked_file(name)
    if "jsonSchema" in values:
        values["jsonSchema"] = _json_text(values["jsonSchema"])
    try:
        return read_parameters(values)
    except ValidationError as error:
        raise WrongCall(explain(error, NAMES), "docs/reasoner.md says what each option takes.") from error


def _json_text(name: str) -> str:
    try:
        text = Path(name).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongCall(
            f"--json-schema: {name} cannot be read: {file_problem(error)}.", "Name a file of JSON."
        ) from error
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WrongCall(f"--json-schema: {name} is not JSON: {error}.", "Correct it at that place.") from error
    return text
