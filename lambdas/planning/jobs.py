"""A request becomes a job: nothing is left to decide, or it is refused with a reason and a remedy."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from pydantic import TypeAdapter, ValidationError

from cosmos_batch.catalogue.pipelines import DEFAULT_SYSTEM_PROMPT, pipeline_named
from cosmos_batch.contract.base import Time
from cosmos_batch.contract.environment import PlanEnvironment
from cosmos_batch.contract.error import Failure, explain
from cosmos_batch.contract.job import InputFile, Job, OutputKey
from cosmos_batch.contract.request import Request
from cosmos_batch.contract.s3 import (
    S3Location,
    allowed,
    document_key,
    join_below,
    parse_uri,
    relative_directory,
)
from cosmos_batch.planning.generation.aliases import read_generation_parameters
from cosmos_batch.planning.generation.prompts import prompt_text
from cosmos_batch.planning.reasoner import medium_of, prompt_of_caller, read_settings, refuse_cut, settle_question
from cosmos_batch.state import ReservedKeys
from cosmos_batch.state.reserved_keys import SECONDS_TRIED
from lambdas.clients import state_table
from lambdas.long_texts import keep_if_long, question_location, words_location
from lambdas.planning.input_files import inspect_inputs
from lambdas.planning.prompts import read_prompt

EXAMPLE = '{"pipeline": "cosmos-reason2-2b", "input": "s3://my-bucket/clip.mp4", "prompt": "What happens?"}'


@dataclass(frozen=True)
class Execution:
    """The execution that a plan is for: its name is the job's, its start the job's clock."""

    arn: str
    name: str
    started_at: datetime

    @classmethod
    def read(cls, context: dict[str, Any]) -> Self:
        """Of the state machine's context object."""
        started_at = TypeAdapter(Time).validate_python(context["startTime"])
        return cls(arn=context["id"], name=context["name"], started_at=started_at.astimezone(UTC))


def read_request(given: object) -> Request:
    """The input of an execution, which a person may have typed. Raises Failure."""
    if not isinstance(given, dict):
        raise Failure("InvalidInput", "The input is not a JSON object.", f"Start with an input such as {EXAMPLE}")
    given = _of_surface(given)
    metadata = given.get("metadata")
    if isinstance(metadata, dict) and "systemPrompt" in metadata:
        rest = {name: value for name, value in metadata.items() if name != "systemPrompt"}
        given = {**given, "metadata": rest, "systemPrompt": metadata["systemPrompt"]}
    try:
        return Request.model_validate(given)
    except ValidationError as error:
        raise Failure("InvalidInput", explain(error), f"An input looks like {EXAMPLE}") from error


def _of_surface(given: dict[str, Any]) -> dict[str, Any]:
    """A person's `parameters` and structured prompt as a generator's own, where the pipeline is one. Raises Failure."""
    pipeline = pipeline_named(str(given.get("pipeline")))
    if pipeline is None or pipeline.surface == "reasoner":
        return given
    given = dict(given)
    if "parameters" in given:
        if "generation" in given:
            raise Failure("InvalidInput", "parameters: stand beside generation.", "Say them once, as parameters.")
        said = given.pop("parameters")
        if not isinstance(said, dict):
            raise Failure("InvalidInput", "parameters: is not a JSON object.", 'Such as {"mode": "t2v", "seed": 7}.')
        said = read_generation_parameters(said)
        given["generation"] = said.model_dump(mode="json", exclude_unset=True)
    if isinstance(given.get("prompt"), dict):
        given["prompt"] = prompt_text("prompt", given["prompt"])
    return given


def plan_job(request: Request, execution: Execution, environment: PlanEnvironment) -> Job:
    """Decide everything. Raises Failure."""
    deadline = settle_deadline(request, execution, environment.deadline_seconds)
    parameters = read_settings(request)
    file, *more = inspect_inputs(request, parameters.more_inputs or [], environment.asset_buckets)
    medium = medium_of(file.key, *(other.key for other in more))
    refuse_cut(parameters, medium)
    system_prompt = (request.system_prompt or "").strip() or DEFAULT_SYSTEM_PROMPT
    prompt = read_prompt(request, execution.name, environment)
    question, parameters = settle_question(parameters, prompt, system_prompt, medium)
    short, uri = keep_if_long(question, question_location(environment.state_bucket, execution.name))
    said = prompt_of_caller(prompt, parameters)
    words, words_uri = keep_if_long(
        None if said == question else said, words_location(environment.state_bucket, execution.name)
    )
    reserved = reserve_document(
        document_directory(request, file),
        lambda directory, time: document_key(directory, file.name, time),
        execution,
        environment,
    )
    return job_of(
        request,
        execution,
        deadline,
        reserved,
        input=file,
        more_inputs=more,
        prompt=short,
        prompt_uri=uri,
        user_prompt=words,
        user_prompt_uri=words_uri,
        system_prompt=system_prompt,
        parameters=parameters,
    )


def job_of(
    request: Request, execution: Execution, deadline: datetime, reserved: tuple[OutputKey, str], **decided: Any
) -> Job:
    """What was decided as a job, with what each says of its request, its execution and its document."""
    document, timestamp = reserved
    return Job(
        job_id=execution.name,
        execution_arn=execution.arn,
        pipeline=request.pipeline,
        document=document,
        timestamp=timestamp,
        created_at=execution.started_at,
        deadline=deadline,
        invalidate_model=request.invalidate_model,
        **decided,
    )


def settle_deadline(request: Request, execution: Execution, seconds: int) -> datetime:
    """The request's own deadline, else the configured one. Raises Failure where it is past."""
    deadline = request.deadline or execution.started_at + timedelta(seconds=seconds)
    if deadline <= datetime.now(deadline.tzinfo):
        raise Failure(
            "TimedOut",
            f"The deadline, {deadline.isoformat()}, has passed.",
            "Start again with a later deadline, or with none.",
        )
    return deadline


def reserve_document(
    directory: S3Location, key_at: Callable[[str, str], str], execution: Execution, environment: PlanEnvironment
) -> tuple[OutputKey, str]:
    """The document's key, reserved for this job, and the timestamp in it. A taken key moves to the next second.

    `key_at` makes the key of a directory and a timestamp.
    """

    def at(timestamp: str) -> OutputKey:
        output = OutputKey(bucket=directory.bucket, key=_fitting(key_at, directory.key, timestamp))
        _refuse_outside(S3Location(output.bucket, output.key), environment.asset_buckets)
        return output

    keys = ReservedKeys(state_table(environment.state_table))
    reserved = keys.reserve_second(execution.started_at, execution.name, at)
    if reserved is not None:
        return reserved
    raise Failure(
        "Internal",
        f"All names of the document in {directory.uri} within {SECONDS_TRIED} s are taken.",
        "Start again in a few minutes, or with another output prefix.",
        retryable=True,
    )


def document_directory(request: Request, file: InputFile) -> S3Location:
    """Of the document: below the output prefix as the input is within its asset, or beside it."""
    if request.output is None:
        return S3Location(file.bucket, file.key.rpartition("/")[0])
    prefix = parse_uri(request.output)
    return S3Location(prefix.bucket, join_below(prefix.key, relative_directory(file.key, request.asset_id)))


def _fitting(key_at: Callable[[str, str], str], directory: str, timestamp: str) -> str:
    try:
        return key_at(directory, timestamp)
    except ValueError as error:
        raise Failure("InvalidInput", f"output: {error}.", "Use a shorter output prefix.") from error


def _refuse_outside(document: S3Location, roots: list[str]) -> None:
    if not allowed(document, roots):
        raise Failure(
            "InvalidInput",
            f"output: outside of the configured buckets: {document.uri}",
            f"Write below one of: {', '.join(roots)}.",
        )
