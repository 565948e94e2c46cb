"""What a person wants to have made, checked before anything is started or sent."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosmos_batch.cli import files
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.options import GENERATION_OPTIONS, GENERATION_SWITCHES, HINTS
from cosmos_batch.contract.catalogue import EXTENSIONS, IMAGE_EXTENSIONS, VIDEO_EXTENSIONS
from cosmos_batch.contract.generation.parameters import GenerationParameters
from cosmos_batch.contract.generation.prompts import prompt_text
from cosmos_batch.contract.generation.request import SUFFIX, parameters_or_refuse, read_request_file
from cosmos_batch.contract.s3 import extension
from cosmos_batch.contract.tasks import Medium

File = Path | str
"""Of this machine, or an S3 URI."""


@dataclass(frozen=True)
class Making:
    """A prompt, a file to start from, and how to make it. Files of this machine are named as they are found there."""

    prompt: str | None
    input: File | None
    parameters: GenerationParameters
    request_file: str | None = None
    pipeline: str | None = None

    @property
    def medium(self) -> Medium | None:
        """The input's kind."""
        if self.input is None:
            return None
        return "image" if extension(str(self.input)) in IMAGE_EXTENSIONS else "video"

    def with_files(self, place: Callable[[Path], str]) -> "Making":
        """With every file of this machine where `place` puts it."""

        def placed(file: File) -> str:
            return place(file) if isinstance(file, Path) else file

        changes: dict[str, Any] = {}
        if self.parameters.action_path is not None:
            changes["action_path"] = placed(_found(self.parameters.action_path, (".json",)))
        if self.parameters.controls is not None:
            changes["controls"] = {
                hint: control
                if control.path is None
                else control.model_copy(update={"path": placed(_found(control.path, VIDEO_EXTENSIONS))})
                for hint, control in self.parameters.controls.items()
            }
        start = None if self.input is None else placed(self.input)
        parameters = self.parameters.model_copy(update=changes)
        return Making(self.prompt, start, parameters, self.request_file, self.pipeline)


def read_making(arguments: argparse.Namespace) -> Making:
    """Of the options, which go before what a request says. Raises CliError or Failure where something is wrong."""
    parameters = _parameters(arguments)
    blank = not (arguments.prompt or "").strip()
    prompt = None if blank else prompt_text("prompt", arguments.prompt)
    name = arguments.file
    if name is not None and name.endswith(SUFFIX):
        return _checked(_of_request(name, parameters, prompt, arguments.pipeline))
    if prompt is None:
        raise CliError("There is no prompt.", 'Say what to make: --prompt "A robot pours water."')
    return _checked(Making(prompt, read_input(name), parameters, pipeline=arguments.pipeline))


def read_input(name: str | None) -> File | None:
    """What to start from. Raises CliError."""
    return None if name is None else _found(name, EXTENSIONS)


def _of_request(name: str, own: GenerationParameters, prompt: str | None, pipeline: str | None) -> Making:
    if name.startswith("s3://"):
        return Making(prompt, None, own, files.checked_uri(name), pipeline)
    path = Path(name).expanduser()
    try:
        request = read_request_file(path.read_bytes())
    except OSError as error:
        raise CliError(f"{name} cannot be read: {error}.", f"Name a file that ends in {SUFFIX}.") from error
    theirs = _beside_each(path, request.parameters)
    return Making(
        prompt or prompt_text("prompt", request.prompt),
        None if request.input is None else read_input(_beside(path, request.input)),
        theirs.model_copy(update={name: getattr(own, name) for name in own.model_fields_set}),
        pipeline=pipeline or request.pipeline,
    )


def _parameters(arguments: argparse.Namespace) -> GenerationParameters:
    names = [*(name for name, *_ in GENERATION_OPTIONS), *(name for name, _ in GENERATION_SWITCHES), "condition_frames"]
    said = {name: value for name in names if (value := getattr(arguments, name)) is not None}
    controls = {hint: one for hint in HINTS if (one := _control(arguments, hint)) is not None}
    if controls:
        said["controls"] = controls
        said.setdefault("mode", "transfer")
    return parameters_or_refuse(said)


def _control(arguments: argparse.Namespace, hint: str) -> dict[str, Any] | None:
    """None where nothing is said of it; a weight or a strength alone is of one that is made from the input."""
    names = {"path": hint, "weight": f"{hint}_weight", "strength": f"{hint}_strength"}
    said = {name: getattr(arguments, option, None) for name, option in names.items()}
    if all(value is None for value in said.values()):
        return None
    return {name: value for name, value in said.items() if value not in (None, "")}


def _beside(request: Path, name: str) -> str:
    """A file that a request names lies beside it."""
    return name if name.startswith("s3://") else str(request.parent / name)


def _beside_each(request: Path, parameters: GenerationParameters) -> GenerationParameters:
    changes: dict[str, Any] = {}
    if parameters.action_path is not None:
        changes["action_path"] = _beside(request, parameters.action_path)
    if parameters.controls is not None:
        changes["controls"] = {
            hint: one if one.path is None else one.model_copy(update={"path": _beside(request, one.path)})
            for hint, one in parameters.controls.items()
        }
    return parameters.model_copy(update=changes)


def _checked(making: Making) -> Making:
    """As it is, having looked for each of its files."""
    making.with_files(str)
    return making


def _found(name: str, extensions: tuple[str, ...]) -> File:
    return files.checked_uri(name) if name.startswith("s3://") else files.checked_input(name, extensions)
