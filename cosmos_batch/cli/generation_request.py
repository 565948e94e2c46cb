"""What a person wants to have made, checked before anything is started or sent."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cosmos_batch.catalogue.formats import EXTENSIONS, IMAGE_EXTENSIONS, VIDEO_EXTENSIONS, Medium
from cosmos_batch.cli import input_checks
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.options import GENERATION_OPTIONS, GENERATION_SWITCHES, HINTS
from cosmos_batch.contract.generation.origin import DocumentedInput, Origin
from cosmos_batch.contract.generation.parameters import GenerationParameters
from cosmos_batch.contract.s3 import extension
from cosmos_batch.planning.generation.aliases import read_generation_parameters
from cosmos_batch.planning.generation.prompts import prompt_text
from cosmos_batch.planning.generation.request_file import SUFFIX, GenerationFile, read_request_file

File = Path | str
"""Of this machine, or an S3 URI."""


@dataclass(frozen=True)
class GenerationRequest:
    """A prompt, a file to start from, and how to make it. Files of this machine are named as they are found there."""

    prompt: str | None
    input: File | None
    parameters: GenerationParameters
    request_file: str | None = None
    pipeline: str | None = None
    origin: Origin | None = None

    @property
    def medium(self) -> Medium | None:
        """The input's kind."""
        if self.input is None:
            return None
        return "image" if extension(str(self.input)) in IMAGE_EXTENSIONS else "video"

    def with_files(self, place: Callable[[Path], str]) -> "GenerationRequest":
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
        return replace(self, input=start, parameters=parameters)


def read_generation_request(arguments: argparse.Namespace) -> GenerationRequest:
    """Of the options, which go before what a request says. Raises CliError or Failure where something is wrong."""
    parameters = _parameters(arguments)
    blank = not (arguments.prompt or "").strip()
    prompt = None if blank else prompt_text("prompt", arguments.prompt)
    name = arguments.file
    if name is not None and extension(name) == ".json":
        return _checked(_of_request(name, parameters, prompt, arguments.pipeline))
    if prompt is None:
        raise CliError("There is no prompt.", 'Say what to make: --prompt "A robot pours water."')
    return _checked(GenerationRequest(prompt, read_input(name), parameters, pipeline=arguments.pipeline))


def read_input(name: str | None) -> File | None:
    """What to start from. Raises CliError."""
    return None if name is None else _found(name, EXTENSIONS)


def _of_request(name: str, own: GenerationParameters, prompt: str | None, pipeline: str | None) -> GenerationRequest:
    if name.startswith("s3://"):
        return GenerationRequest(prompt, None, own, input_checks.checked_uri(name), pipeline)
    path = Path(name).expanduser()
    try:
        request = read_request_file(path.read_bytes())
    except OSError as error:
        raise CliError(
            f"{name} cannot be read: {error}.", f"Name a file that ends in {SUFFIX}, or a document."
        ) from error
    theirs, origin = _each_found(path, request), request.origin
    if origin is not None and prompt is not None:
        origin = origin.with_another_prompt()
    return GenerationRequest(
        prompt or prompt_text("prompt", request.prompt),
        None if request.input is None else read_input(_where(path, request, request.input)),
        theirs.overridden_by(own),
        pipeline=pipeline or request.pipeline,
        origin=None if origin is None else _of_s3(origin),
    )


def _parameters(arguments: argparse.Namespace) -> GenerationParameters:
    names = [*(name for name, *_ in GENERATION_OPTIONS), *(name for name, _ in GENERATION_SWITCHES), "condition_frames"]
    said = {name: value for name in names if (value := getattr(arguments, name)) is not None}
    controls = {hint: one for hint in HINTS if (one := _control(arguments, hint)) is not None}
    if controls:
        said["controls"] = controls
        said.setdefault("mode", "transfer")
    return read_generation_parameters(said)


def _control(arguments: argparse.Namespace, hint: str) -> dict[str, Any] | None:
    """None where nothing is said of it; a weight or a strength alone is of one that is made from the input."""
    names = {"path": hint, "weight": f"{hint}_weight", "strength": f"{hint}_strength"}
    said = {name: getattr(arguments, option, None) for name, option in names.items()}
    if all(value is None for value in said.values()):
        return None
    return {name: value for name, value in said.items() if value not in (None, "")}


def _where(path: Path, request: GenerationFile, name: str) -> str:
    """A file that a request names lies beside it; that of a document, where it came from. Raises CliError."""
    if not name.startswith("s3://"):
        return str(path.parent / name)
    known = [] if request.origin is None else request.origin.files
    local = next((one for one in known if one.uri == name and one.path is not None), None)
    return name if local is None else _unchanged(local)


def _of_s3(origin: Origin) -> Origin:
    """Without the files of this machine, which are uploaded anew."""
    return origin.model_copy(update={"files": [one for one in origin.files if one.path is None]})


def _unchanged(file: DocumentedInput) -> str:
    path = Path(file.path or "")
    if not path.is_file():
        raise CliError(
            f"{path}, of which it was made, is not there any more.", "Put it back, or correct `path` in the document."
        )
    if input_checks.digest(path) != file.sha256:
        raise CliError(
            f"{path} is another file than the one of which it was made.",
            "Put that one back, or name this one and the prompt yourself: it will be another thing.",
        )
    return str(path)


def _each_found(path: Path, request: GenerationFile) -> GenerationParameters:
    parameters, changes = request.parameters, dict[str, Any]()
    if parameters.action_path is not None:
        changes["action_path"] = _where(path, request, parameters.action_path)
    if parameters.controls is not None:
        changes["controls"] = {
            hint: one if one.path is None else one.model_copy(update={"path": _where(path, request, one.path)})
            for hint, one in parameters.controls.items()
        }
    return parameters.model_copy(update=changes)


def _checked(making: GenerationRequest) -> GenerationRequest:
    """As it is, having looked for each of its files."""
    making.with_files(str)
    return making


def _found(name: str, extensions: tuple[str, ...]) -> File:
    return input_checks.checked_uri(name) if name.startswith("s3://") else input_checks.checked_input(name, extensions)
