"""How a reasoner's request is settled: the question that the model gets, and the parameters of its answer."""

import json
from typing import Any

from pydantic import ValidationError

from cosmos_batch.catalogue.formats import IMAGE_EXTENSIONS, Medium
from cosmos_batch.catalogue.pipelines import DEFAULT_PROMPT
from cosmos_batch.contract.error import Failure, explain
from cosmos_batch.contract.parameters import Parameters, read_parameters
from cosmos_batch.contract.request import Request
from cosmos_batch.contract.s3 import extension
from cosmos_batch.contract.sampling import with_sampling
from cosmos_batch.contract.tasks import REASONING_FORMAT, TASKS, THINK

SCHEMA_FORMAT = "\n\nAnswer with JSON alone, which must fit this JSON Schema:\n"


def medium_of(*names: str) -> Medium:
    """Return whether files are images only, or a video among them, by their names. The worker checks their content."""
    return "image" if all(extension(name) in IMAGE_EXTENSIONS for name in names) else "video"


def read_settings(request: Request) -> Parameters:
    """Return the parameters of a request. Those in the file's metadata replace their namesakes. Raises Failure."""
    values = {**request.parameters.model_dump(exclude_unset=True), **request.metadata}
    try:
        return read_parameters(values) if request.metadata else request.parameters
    except ValidationError as error:
        raise Failure("InvalidInput", explain(error), "Correct the file's metadata and upload it again.") from error


def refuse_cut(parameters: Parameters, medium: Medium) -> None:
    """Raise Failure where `start` or `end` is set for an image."""
    for name in ("start", "end"):
        if medium == "image" and getattr(parameters, name) is not None:
            raise Failure("InvalidInput", f"{name}: an image has no time to cut.", "Leave start and end out.")


def prompt_of_caller(prompt: str | None, parameters: Parameters) -> str:
    """Return the prompt that the document shows as the caller's: their own, or the default question in its place.

    A task has a question of its own, so that no default stands in for an absent prompt.
    """
    if prompt is not None:
        return prompt
    return DEFAULT_PROMPT if parameters.task is None else ""


def settle_question(
    parameters: Parameters, prompt: str | None, system_prompt: str, medium: Medium
) -> tuple[str, Parameters]:
    """Return the question that the model gets, and the parameters with every default filled in. Raises Failure."""
    task = TASKS[parameters.task] if parameters.task is not None else None
    question = prompt or DEFAULT_PROMPT
    schema = parameters.json_schema
    reasoning = parameters.reasoning
    if task is not None:
        try:
            question = task.question(prompt, medium)
        except ValueError as error:
            raise Failure("InvalidInput", f"task: {error}.", "Correct the prompt, or choose another task.") from error
        schema = task.schema if schema is None else schema
        reasoning = task.reasoning if reasoning is None else reasoning
    if parameters.json_schema is not None:
        question += SCHEMA_FORMAT + json.dumps(parameters.json_schema, ensure_ascii=False)
    if reasoning and THINK not in question:
        question += REASONING_FORMAT
    settled: dict[str, Any] = {"reasoning": THINK in system_prompt + question, "json_schema": schema}
    return question, with_sampling(parameters.model_copy(update=settled))
