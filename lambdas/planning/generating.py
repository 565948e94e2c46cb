"""A request for a generation becomes a job: what to make is settled, and each file that it names is found."""

from typing import Any

from cosmos_batch.catalogue.formats import EXTENSIONS, VIDEO_EXTENSIONS
from cosmos_batch.catalogue.pipelines import Pipeline, pipeline_named
from cosmos_batch.contract.environment import PlanEnvironment
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.generation.outputs import generation_document_key
from cosmos_batch.contract.generation.parameters import GenerationParameters
from cosmos_batch.contract.generation.serving import Serving
from cosmos_batch.contract.job import InputFile, Job
from cosmos_batch.contract.parameters import Parameters
from cosmos_batch.contract.request import Request
from cosmos_batch.contract.s3 import S3Location, parse_uri
from cosmos_batch.planning.generation.aliases import read_generation_parameters
from cosmos_batch.planning.generation.metadata import prompt_and_parameters
from cosmos_batch.planning.generation.prompts import prompt_text
from cosmos_batch.planning.generation.request_file import read_request_file
from cosmos_batch.planning.generation.settling import settle
from cosmos_batch.planning.input_files import refuse_outside
from cosmos_batch.planning.reasoner import medium_of
from lambdas.planning.input_files import beside, head_or_refuse, inspect, read_or_refuse
from lambdas.planning.jobs import Execution, document_directory, job_of, reserve_document, settle_deadline
from lambdas.planning.prompts import read_prompt

ACTION_EXTENSIONS = (".json",)


def plan_generation(request: Request, execution: Execution, environment: PlanEnvironment, serving: Serving) -> Job:
    """Decide everything that can be decided before the input is seen. Raises Failure."""
    deadline = settle_deadline(request, execution, environment.deadline_seconds)
    pipeline = pipeline_named(request.pipeline)
    assert pipeline is not None, "infra deploys the pipelines of the catalogue"
    request = with_request_file(request, environment)
    file = _input(request, environment)
    medium = medium_of(file.key) if file else None
    prompt = read_prompt(request, execution.name, environment)
    generation = settle(_parameters(request), prompt, pipeline, medium, execution.name, serving)
    if request.origin is not None:
        generation = generation.model_copy(update={"given_prompt": request.origin.given_prompt})
    more = _named_files(generation, request, file, environment)
    directory = _directory(request, file)
    reserved = reserve_document(
        directory, lambda where, time: _document_key(where, file, pipeline, time), execution, environment
    )
    return job_of(
        request,
        execution,
        deadline,
        reserved,
        input=file,
        more_inputs=more,
        prompt=None,
        prompt_uri=None,
        system_prompt="",
        parameters=Parameters(),
        generation=generation,
        origin=request.origin,
    )


def with_request_file(request: Request, environment: PlanEnvironment) -> Request:
    """The request with what its `*.cosmos.json` says; what the request says itself goes before it. Raises Failure."""
    if request.request_file is None:
        return request
    place = parse_uri(request.request_file)
    refuse_outside("requestFile", place, environment.asset_buckets)
    said = read_request_file(read_or_refuse(head_or_refuse(place, request.request_file_version)))
    own = request.generation or GenerationParameters()
    changes: dict[str, Any] = {"generation": said.parameters.overridden_by(own), "origin": said.origin}
    if request.prompt is None and request.prompt_uri is None:
        changes["prompt"] = prompt_text("prompt", said.prompt)
    elif said.origin is not None:
        changes["origin"] = said.origin.with_another_prompt()
    if request.input is None and said.input is not None:
        changes["input"] = beside("input", place, said.input).uri
    if request.output is None:
        changes["output"] = said.output or S3Location(place.bucket, place.key.rpartition("/")[0]).uri
    return request.model_copy(update=changes)


def _parameters(request: Request) -> GenerationParameters:
    """What the file's metadata says goes before what the request says. Raises Failure."""
    if not request.metadata:
        return request.generation or GenerationParameters()
    try:
        _, said = prompt_and_parameters(request.metadata)
    except ValueError as error:
        raise Failure("InvalidInput", f"{error}.", "Correct the file's metadata and upload it again.") from error
    own = {} if request.generation is None else request.generation.model_dump(exclude_unset=True, by_alias=True)
    return read_generation_parameters({**own, **said})


def _input(request: Request, environment: PlanEnvironment) -> InputFile | None:
    if request.input is None:
        return None
    version = request.input_version_id or _version(request, request.input)
    return inspect("input", parse_uri(request.input), environment.asset_buckets, EXTENSIONS, version)


def _version(request: Request, uri: str) -> str | None:
    return None if request.origin is None else request.origin.version_of(uri)


def _named_files(
    generation: Generation, request: Request, file: InputFile | None, environment: PlanEnvironment
) -> list[InputFile]:
    """The control videos in the model's order, then the actions. Raises Failure."""
    named: list[tuple[str, str, tuple[str, ...]]] = []
    if generation.transfer is not None:
        controls = generation.transfer.controls
        named = [(f"controls.{hint}", one.path, VIDEO_EXTENSIONS) for hint, one in controls.items() if one.path]
    if generation.action is not None and generation.action.path is not None:
        named.append(("actionPath", generation.action.path, ACTION_EXTENSIONS))
    near = None if file is None else S3Location(file.bucket, file.key)
    places = [(field, beside(field, near, name), extensions) for field, name, extensions in named]
    return [
        inspect(field, place, environment.asset_buckets, extensions, _version(request, place.uri))
        for field, place, extensions in places
    ]


def _directory(request: Request, file: InputFile | None) -> S3Location:
    if file is not None:
        return document_directory(request, file)
    if request.output is None:
        raise Failure(
            "InvalidInput",
            "output: is missing, and there is no input beside which the result could lie.",
            'Say where: "output": "s3://my-bucket/folder/".',
        )
    return parse_uri(request.output)


def _document_key(directory: str, file: InputFile | None, pipeline: Pipeline, timestamp: str) -> str:
    return generation_document_key(directory, None if file is None else file.name, pipeline, timestamp)
