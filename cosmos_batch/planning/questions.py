"""Settle what a reasoner is asked: the text of the question, the system prompt, and every parameter of the answer."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import ValidationError

from cosmos_batch.catalogue.engines import ENGINES
from cosmos_batch.catalogue.formats import Medium, medium_of
from cosmos_batch.catalogue.pipelines import DEFAULT_PROMPT, DEFAULT_SYSTEM_PROMPT
from cosmos_batch.contract.error import Failure, explain
from cosmos_batch.contract.parameters import NAMES, Parameters, read_parameters
from cosmos_batch.contract.request import Request
from cosmos_batch.contract.tasks import REASONING_FORMAT, TASKS, THINK

SCHEMA_FORMAT = "\n\nAnswer with JSON alone, which must fit this JSON Schema:\n"
DEFAULT_MAX_TOKENS = 4096
"""The longest answer, in tokens, where neither the request nor the checkpoint's generation_config sets one."""


@dataclass(frozen=True)
class Sampling:
    """Sampling parameters under the names that vLLM, the OpenAI protocol and `Parameters` give them."""

    temperature: float
    top_p: float
    top_k: int
    repetition_penalty: float
    presence_penalty: float
    seed: int


# NVIDIA's values for Cosmos-Reason2, which are Qwen3-VL's: without reasoning, and with it.
ANSWERING = Sampling(0.7, 0.8, 20, 1.0, 1.5, 3407)
REASONING = Sampling(0.6, 0.95, 20, 1.0, 0.0, 1234)


def with_sampling(parameters: Parameters) -> Parameters:
    """Return the parameters with NVIDIA's sampling values where the caller set none."""
    published = asdict(REASONING if parameters.reasoning else ANSWERING)
    return parameters.model_copy(
        update={name: value for name, value in published.items() if getattr(parameters, name) is None}
    )


@dataclass(frozen=True)
class Question:
    """A question for a reasoner, as `plan` settles it.

    Attributes
    ----------
    text
        The whole question as the model reads it.
    caller_words
        The part of it that the caller wrote, or the default question in place of it; "" for a task without a prompt.
    system_prompt
        The system prompt.
    parameters
        The parameters of the answer, with a value for each that has a default.
    """

    text: str
    caller_words: str
    system_prompt: str
    parameters: Parameters


def parameters_of(request: Request) -> Parameters:
    """Return a request's parameters; those of the file's metadata replace those of the same name. Raises Failure."""
    if not request.metadata:
        return request.parameters
    try:
        return read_parameters({**request.parameters.model_dump(exclude_unset=True), **request.metadata})
    except ValidationError as error:
        raise Failure(
            "InvalidInput", explain(error, NAMES), "Correct the file's metadata and upload it again."
        ) from error


def refuse_cut_of_image(parameters: Parameters, medium: Medium) -> None:
    """Raise Failure if a part of an image is requested by time."""
    for name in ("start", "end"):
        if medium == "image" and getattr(parameters, name) is not None:
            raise Failure("InvalidInput", f"{name}: an image has no time to cut.", "Leave start and end out.")


def refuse_unseen_files(engine: str, first: str, more: Sequence[str] = ()) -> None:
    """Raise Failure if a reasoner's engine, as it is configured, cannot look at the named files in one request."""
    registered = ENGINES.get(engine)
    if registered is None or not registered.one_image_only:
        return
    if more:
        raise _not_seen(f"{registered.title} looks at one image a request, not at several.")
    if medium_of(first) == "video":
        raise video_not_seen(engine, first)


def video_not_seen(engine: str, name: str) -> Failure:
    """Return the refusal of a video by an engine that looks at images alone, to be raised."""
    return _not_seen(f"{name} is a video; {ENGINES[engine].title} looks at images.")


def _not_seen(message: str) -> Failure:
    return Failure("InvalidInput", message, "Set the pipeline's engine to 'vllm', which takes it.")


def refuse_question(parameters: Parameters, prompt: str | None, system_prompt: str | None) -> None:
    """Raise Failure if a question can be asked neither about an image nor about a video."""
    with suppress(Failure):
        settle_question(parameters, prompt, system_prompt, "image")
        return
    settle_question(parameters, prompt, system_prompt, "video")


def settle_question(parameters: Parameters, prompt: str | None, system_prompt: str | None, medium: Medium) -> Question:
    """Return the question with everything decided: by the caller, else by the task, else by the defaults.

    Raises Failure if the task cannot be asked about this prompt or medium.
    """
    system_prompt = (system_prompt or "").strip() or DEFAULT_SYSTEM_PROMPT
    text, schema, reasoning = prompt or DEFAULT_PROMPT, parameters.json_schema, parameters.reasoning
    if parameters.task is not None:
        task = TASKS[parameters.task]
        try:
            text = task.question(prompt, medium)
        except ValueError as error:
            raise Failure("InvalidInput", f"task: {error}.", "Correct the prompt, or choose another task.") from error
        schema = task.schema if schema is None else schema
        reasoning = task.reasoning if reasoning is None else reasoning
    if parameters.json_schema is not None:
        text += SCHEMA_FORMAT + json.dumps(parameters.json_schema, ensure_ascii=False)
    if reasoning and THINK not in text:
        text += REASONING_FORMAT
    settled: dict[str, Any] = {"reasoning": THINK in system_prompt + text, "json_schema": schema}
    # A task has a question of its own: without a prompt, the caller has written none of it.
    default_words = DEFAULT_PROMPT if parameters.task is None else ""
    return Question(
        text=text,
        caller_words=default_words if prompt is None else prompt,
        system_prompt=system_prompt,
        parameters=with_sampling(parameters.model_copy(update=settled)),
    )
