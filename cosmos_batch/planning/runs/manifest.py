"""Read a line of a manifest: one request as JSON.

`{"id": "dock-7", "input": "s3://my-bucket/dock-7.mp4", "prompt": "What happens?", "parameters": {"fps": 2}}`

The parameters are those of docs/reasoner.md for reasoners, and those of docs/generator.md for generators. A line of the
OpenAI batch format is read by `openai_lines`.
"""

import json
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field, ValidationError
from pydantic_core import ErrorDetails

from cosmos_batch.contract.base import Model
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.parameters import NAMES as GENERATION_NAMES
from cosmos_batch.contract.generation.parameters import GenerationParameters
from cosmos_batch.contract.parameters import FILES_LIMIT, NAMES, Parameters, read_parameters
from cosmos_batch.contract.request import Text
from cosmos_batch.contract.runs import RunItem
from cosmos_batch.contract.s3 import S3Uri
from cosmos_batch.planning.generation.aliases import is_parameter, read_generation_parameters
from cosmos_batch.planning.generation.prompts import prompt_text
from cosmos_batch.planning.runs.item_checks import RunRules
from cosmos_batch.planning.runs.line_problems import FieldProblem, WrongLine
from cosmos_batch.planning.runs.openai_lines import is_openai_line, translated
from cosmos_batch.planning.runs.sweep import merged_parameters

LINE_LIMIT = 1024 * 1024  # bytes
ID_LIMIT = 256  # characters of a caller's id
EXAMPLE = '{"id": "1", "input": "s3://my-bucket/clip.mp4", "prompt": "What happens?"}'


class ManifestLine(Model):
    """One line of a manifest."""

    id: str | None = Field(
        default=None, min_length=1, max_length=ID_LIMIT, description="Unique in the manifest; the input if absent"
    )
    input: S3Uri | None = Field(default=None, description="The file; none where a generation starts from text")
    inputs: list[S3Uri] | None = Field(
        default=None,
        min_length=1,
        max_length=FILES_LIMIT,
        description="In place of `input`: several files, which a reasoner sees together in this order",
    )
    version_id: str | None = Field(
        default=None, min_length=1, description="S3 version of the input; the latest if absent"
    )
    prompt: Text | dict[str, Any] | None = Field(
        default=None, description="In place of the run's; for a generator also NVIDIA's JSON"
    )
    system_prompt: Annotated[Text, Field(max_length=16_384)] | None = Field(
        default=None, description="In place of the run's"
    )
    parameters: dict[str, Any] | None = Field(default=None, description="Each in place of the run's of the same name")


FIELDS = [str(field.alias) for field in ManifestLine.model_fields.values()]


def read_line(line: bytes, rules: RunRules) -> RunItem:
    """Return the item that a line of JSON asks for. Raises WrongLine."""
    fields = _parsed(line)
    if is_openai_line(fields):
        fields = translated(fields)
    fields = _with_copies(fields, rules)
    if problems := [FieldProblem.unknown(name, FIELDS) for name in fields if name not in FIELDS]:
        raise WrongLine(problems)
    try:
        read = ManifestLine.model_validate(fields)
    except ValidationError as error:
        raise WrongLine(_problems(error)) from error
    item = _item(read, rules)
    if problems := list(rules.problems(item)):
        raise WrongLine(problems)
    return item


def _with_copies(fields: dict[str, Any], rules: RunRules) -> dict[str, Any]:
    """Return the fields with the copies in S3 of files that lie at https addresses. Raises WrongLine."""
    copied = dict(fields)
    if isinstance(name := fields.get("input"), str):
        copied["input"] = rules.web.copied("input", name)
        if copied["input"] != name:
            copied.setdefault("id", name[:ID_LIMIT])
    if isinstance(names := fields.get("inputs"), list):
        places = [(f"inputs.{number}", name) for number, name in enumerate(names)]
        copied["inputs"] = [rules.web.copied(*place) if isinstance(place[1], str) else place[1] for place in places]
    return copied


def _parsed(line: bytes) -> dict[str, Any]:
    if len(line) > LINE_LIMIT:
        raise WrongLine([FieldProblem("", f"has more than {LINE_LIMIT:,} bytes.", "Write one request on each line.")])
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise WrongLine([FieldProblem("", f"is not JSON: {error}.", f"A line looks like {EXAMPLE}")]) from error
    if not isinstance(value, dict):
        raise WrongLine([FieldProblem("", "is not a JSON object.", f"A line looks like {EXAMPLE}")])
    if "\\u" in line.decode(errors="replace") and _holds_surrogates(value):
        raise WrongLine([FieldProblem("", "holds half of a surrogate pair, which is no character.", "Replace it.")])
    return value


def _holds_surrogates(value: dict[str, Any]) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _item(line: ManifestLine, rules: RunRules) -> RunItem:
    if line.input is not None and line.inputs is not None:
        raise WrongLine([FieldProblem("inputs", "stands beside `input`.", "Give one of the two.")])
    files = line.inputs or ([] if line.input is None else [line.input])
    first = files[0] if files else None
    if first is None and line.id is None:
        raise WrongLine([FieldProblem("id", "is missing.", "A request without an input needs an id of its own.")])
    item = RunItem(id=line.id or first or "", input=first, version_id=line.version_id)
    changes: dict[str, object] = {"system_prompt": line.system_prompt}
    problems = [*_read_prompt(line, rules, changes), *_read_parameters(line, files[1:], rules, changes)]
    if problems:
        raise WrongLine(problems)
    return item.model_copy(update=changes)


def _read_prompt(line: ManifestLine, rules: RunRules, changes: dict[str, object]) -> Iterator[FieldProblem]:
    if line.prompt is None:
        return
    if isinstance(line.prompt, str) and not line.prompt.strip():
        yield FieldProblem("prompt", "is empty.", "Write what to ask, or leave it out for the run's prompt.")
    elif rules.surface == "reasoner" and not isinstance(line.prompt, str):
        yield FieldProblem("prompt", "is not text.", "Only generators take JSON as a prompt.")
    elif rules.surface == "reasoner":
        changes["prompt"] = line.prompt
    else:
        try:
            changes["prompt"] = prompt_text("prompt", line.prompt)
        except Failure as failure:
            yield FieldProblem.of("prompt", failure)


def _read_parameters(
    line: ManifestLine, more: list[str], rules: RunRules, changes: dict[str, object]
) -> Iterator[FieldProblem]:
    values = line.parameters or {}
    if rules.surface == "generator":
        yield from _read_generation(values, more, rules, changes)
        return
    unknown = [FieldProblem.unknown(f"parameters.{name}", NAMES) for name in values if name not in NAMES]
    if unknown:
        yield from unknown
        return
    if more and values.get("moreInputs"):
        yield FieldProblem("parameters.moreInputs", "stands beside `inputs`.", "Name all files in `inputs`.")
        return
    if values or more:
        try:
            line_parameters: Parameters = read_parameters({**values, **({"moreInputs": more} if more else {})})
        except ValidationError as error:
            yield from _problems(error, "parameters.")
            return
        changes["parameters"] = merged_parameters(rules.request, line_parameters)


def _read_generation(
    values: dict[str, Any], more: list[str], rules: RunRules, changes: dict[str, object]
) -> Iterator[FieldProblem]:
    if more:
        yield FieldProblem("inputs", "has several files.", "A generation starts from one file, or from none.")
    unknown = [
        FieldProblem.unknown(f"parameters.{name}", GENERATION_NAMES) for name in values if not is_parameter(name)
    ]
    yield from unknown
    if not values or unknown:
        return
    try:
        line_parameters = read_generation_parameters(values)
    except Failure as failure:
        field, _, message = failure.error.message.partition(": ")
        yield FieldProblem(f"parameters.{field}", message or failure.error.message, failure.error.remedy)
        return
    changes["generation"] = (rules.request.generation or GenerationParameters()).overridden_by(line_parameters)


def _problems(error: ValidationError, above: str = "") -> list[FieldProblem]:
    """Return pydantic's errors as problems with remedies: one for a field that may be of several types."""
    by_path: dict[str, FieldProblem] = {}
    for detail in error.errors(include_url=False):
        parts = detail["loc"][:1] if detail["loc"][0] == "prompt" else detail["loc"]
        path = above + ".".join(map(str, parts))
        by_path.setdefault(path, _problem(path, detail))
    return list(by_path.values())


def _problem(path: str, detail: ErrorDetails) -> FieldProblem:
    message = detail["msg"].removeprefix("Value error, ")
    remedy = "Write it as S3 shows it, such as s3://my-bucket/clip.mp4." if "input" in path else "Correct it."
    return FieldProblem(path, f"{_shown(detail['input'])}: {message[0].lower()}{message[1:]}.", remedy)


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else f"{text[:79]}…"
