"""Read from options or a request file what a generator is to make, and check it before anything is sent."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from cosmos_batch.catalogue.formats import EXTENSIONS, VIDEO_EXTENSIONS, Medium, extension, medium_of
from cosmos_batch.cli.errors import WrongCall, file_problem
from cosmos_batch.cli.input_checks import File, checked_path, checked_uri, digest
from cosmos_batch.cli.options import GENERATION_OPTIONS, GENERATION_SWITCHES, HINTS
from cosmos_batch.cli.prompt_files import read_description
from cosmos_batch.cli.request_checks import Problems
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.origin import DocumentedInput, Origin
from cosmos_batch.contract.generation.parameters import GenerationParameters
from cosmos_batch.planning.generation.aliases import read_generation_parameters
from cosmos_batch.planning.generation.prompts import prompt_text
from cosmos_batch.planning.generation.request_file import SUFFIX, GenerationFile, read_request_file

JSON = (".json",)


@dataclass(frozen=True)
class GenerationRequest:
    """A prompt, a file to start from, and the generator's parameters.

    Files may be paths on this machine, or S3 URIs. Those in `scratch` were written for this request alone, and are
    removed when the command ends.
    """

    prompt: str | None
    input: File | None
    parameters: GenerationParameters
    request_file: str | None = None
    pipeline: str | None = None
    origin: Origin | None = None
    scratch: Path | None = None

    @property
    def medium(self) -> Medium | None:
        """Return whether the input is an image or a video; None without an input."""
        if self.input is None:
            return None
        return medium_of(str(self.input))

    def with_files(self, place: Callable[[Path], str]) -> "GenerationRequest":
        """Return the request with every file of this machine replaced by the name that `place` returns for it.

        Raises WrongCall where one of them cannot be used.
        """

        def placed(file: File) -> str:
            return place(file) if isinstance(file, Path) else file

        changes: dict[str, Any] = {}
        if self.parameters.action_path is not None:
            changes["action_path"] = placed(_checked(self.parameters.action_path, JSON))
        if self.parameters.controls is not None:
            changes["controls"] = {
                hint: control
                if control.path is None
                else control.model_copy(update={"path": placed(_checked(control.path, VIDEO_EXTENSIONS))})
                for hint, control in self.parameters.controls.items()
            }
        start = None if self.input is None else placed(self.input)
        return replace(self, input=start, parameters=self.parameters.model_copy(update=changes))


def read_generation_request(
    name: str | None, prompt: str | None, pipeline: str | None, options: Mapping[str, Any]
) -> GenerationRequest:
    """Read a file's name and the options of `generator_options`, which replace what a request file sets.

    Raises WrongCall, or Failure with the words of the planning Lambda.
    """
    parameters = _with_all_actions(_parameters(options))
    if prompt is not None and not prompt.strip():
        raise WrongCall("The prompt is empty.", 'Say what to make: --prompt "A robot pours water."')
    description = read_description(prompt, options.get("prompt_file"))
    text = None if description is None else prompt_text("prompt", description)
    if name is not None and extension(name) == ".json":
        request = _from_file(name, parameters, text, pipeline)
    elif text is None:
        raise WrongCall("There is no prompt.", 'Say what to make: --prompt "A robot pours water."')
    else:
        request = GenerationRequest(text, _unchecked(name), parameters, pipeline=pipeline)
    _refuse_wrong_files(request)
    return request


def _with_all_actions(parameters: GenerationParameters) -> GenerationParameters:
    """Return the parameters with as many actions as a file of this machine has rows, unless their number is given."""
    name = parameters.action_path
    if name is None or name.startswith("s3://") or parameters.action_chunk_size is not None:
        return parameters
    try:
        rows = json.loads(Path(name).expanduser().read_bytes())
    except (OSError, ValueError, RecursionError):
        return parameters  # what is wrong with it is said where all files are checked, and by the worker
    if not isinstance(rows, list) or not rows:
        return parameters
    return parameters.model_copy(update={"action_chunk_size": len(rows)})


def read_input(name: str | None) -> File | None:
    """Return the checked file to start from, or None. Raises WrongCall."""
    return None if name is None else _checked(name, EXTENSIONS)


def _unchecked(name: str | None) -> File | None:
    return name if name is None or name.startswith("s3://") else Path(name).expanduser()


def _refuse_wrong_files(request: GenerationRequest) -> None:
    """Raise WrongCall that names all files that cannot be used, as far as their names and this machine tell."""
    parameters, problems = request.parameters, Problems()
    named = [
        (request.input, EXTENSIONS),
        (parameters.action_path, JSON),
        *((control.path, VIDEO_EXTENSIONS) for control in (parameters.controls or {}).values()),
    ]
    for name, extensions in named:
        if name is not None:
            problems.check(name, partial(_checked, str(name), extensions))
    problems.raise_all()


def _from_file(
    name: str, parameters: GenerationParameters, prompt: str | None, pipeline: str | None
) -> GenerationRequest:
    """Read a request file, or the document of something that is to be made again."""
    if name.startswith("s3://"):
        return GenerationRequest(prompt, None, parameters, checked_uri(name, JSON), pipeline)
    path = Path(name).expanduser()
    try:
        file = read_request_file(path.read_bytes(), lambda other: _read_beside(path, other))
    except OSError as error:
        raise WrongCall(
            f"{name} cannot be read: {file_problem(error)}.", f"Name a file that ends in {SUFFIX}, or a document."
        ) from error
    origin = file.origin
    if origin is not None and prompt is not None:
        origin = origin.with_another_prompt()
    return GenerationRequest(
        prompt or prompt_text("prompt", file.prompt),
        None if file.input is None else _unchecked(_located(path, file, file.input)),
        _with_all_actions(_located_parameters(path, file).overridden_by(parameters)),
        pipeline=pipeline or file.pipeline,
        origin=None if origin is None else _without_local_files(origin),
    )


def _parameters(options: Mapping[str, Any]) -> GenerationParameters:
    names = [*(name for name, *_ in GENERATION_OPTIONS), *(name for name, _ in GENERATION_SWITCHES), "condition_frames"]
    values = {name: value for name in names if (value := options.get(name)) is not None}
    if "negative_prompt" in values:
        values["negative_prompt"] = read_description(values["negative_prompt"], option="--negative-prompt")
    controls = {hint: control for hint in HINTS if (control := _control(options, hint)) is not None}
    if controls:
        values["controls"] = controls
        values.setdefault("mode", "transfer")
    try:
        return read_generation_parameters(values)
    except Failure as failure:
        raise WrongCall(
            failure.error.message, "`cosmos-batch generate --help` and docs/generator.md say what each option takes."
        ) from failure


def _control(options: Mapping[str, Any], hint: str) -> dict[str, Any] | None:
    """Return the settings of one control, or None without any. Without a path it is computed from the input."""
    names = {"path": hint, "weight": f"{hint}_weight", "strength": f"{hint}_strength"}
    values = {key: options.get(name) for key, name in names.items()}
    if all(value is None for value in values.values()):
        return None
    return {key: value for key, value in values.items() if value not in (None, "")}


def _read_beside(path: Path, name: str) -> bytes:
    """Return the content of a file that a request names, relative to its own folder. Raises WrongCall."""
    beside = path.parent / name
    try:
        return beside.read_bytes()
    except OSError as error:
        raise WrongCall(
            f"{path} names {name}, which cannot be read: {file_problem(error)}.", "Correct the name in it."
        ) from error


def _located(path: Path, file: GenerationFile, name: str) -> str:
    """Return where a named file lies: beside the request, or where its document says. Raises WrongCall."""
    if name.startswith(("https://", "http://")):
        raise WrongCall(
            f"{path} names {name}, and nothing is downloaded from the web.",
            "Download the file, and write its name into the request.",
        )
    if not name.startswith("s3://"):
        return str(path.parent / name)
    known = [] if file.origin is None else file.origin.files
    local = next((entry for entry in known if entry.uri == name and entry.path is not None), None)
    return name if local is None else _unchanged(local)


def _located_parameters(path: Path, file: GenerationFile) -> GenerationParameters:
    parameters, changes = file.parameters, dict[str, Any]()
    if parameters.action_path is not None:
        changes["action_path"] = _located(path, file, parameters.action_path)
    if parameters.controls is not None:
        changes["controls"] = {
            hint: control
            if control.path is None
            else control.model_copy(update={"path": _located(path, file, control.path)})
            for hint, control in parameters.controls.items()
        }
    return parameters.model_copy(update=changes)


def _without_local_files(origin: Origin) -> Origin:
    """Return the origin with its files in S3 only: those of this machine are uploaded again."""
    return origin.model_copy(update={"files": [entry for entry in origin.files if entry.path is None]})


def _unchanged(file: DocumentedInput) -> str:
    """Return the path of a documented file of this machine. Raises WrongCall where it is gone or another one."""
    path = Path(file.path or "")
    if not path.is_file():
        raise WrongCall(
            f"{path}, of which it was made, is not there any more.", "Put it back, or correct `path` in the document."
        )
    if digest(path) != file.sha256:
        raise WrongCall(
            f"{path} is another file than the one of which it was made.",
            "Put that one back, or name this one and the prompt yourself: it will be another thing.",
        )
    return str(path)


def _checked(name: str, extensions: tuple[str, ...]) -> File:
    return checked_uri(name, extensions) if name.startswith("s3://") else checked_path(name, extensions)
