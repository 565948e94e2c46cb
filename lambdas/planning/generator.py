"""Plan a generation: read its request file, find its input, settle what to generate, find the other files it names."""

from typing import Any

from cosmos_batch.catalogue.formats import ACTION_EXTENSIONS, EXTENSIONS, VIDEO_EXTENSIONS, medium_of
from cosmos_batch.catalogue.pipelines import pipeline_named
from cosmos_batch.contract.environment import PlanningEnvironment
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.generation.outputs import generation_document_key
from cosmos_batch.contract.generation.parameters import GenerationParameters
from cosmos_batch.contract.generation.serving import Serving
from cosmos_batch.contract.job import InputFile
from cosmos_batch.contract.parameters import Parameters
from cosmos_batch.contract.request import Request
from cosmos_batch.contract.s3 import S3Location, parse_uri
from cosmos_batch.planning.generation.abilities import refuse_undistilled_engine
from cosmos_batch.planning.generation.aliases import read_generation_parameters
from cosmos_batch.planning.generation.metadata import prompt_and_parameters
from cosmos_batch.planning.generation.prompts import prompt_text
from cosmos_batch.planning.generation.request_file import GenerationFile, read_request_file
from cosmos_batch.planning.generation.settling import settle
from cosmos_batch.planning.input_files import locate, locate_input
from lambdas.planning.inputs import inspect, read_prompt, request_file_content
from lambdas.planning.work import Work


def plan_generation(
    request: Request, job_id: str, environment: PlanningEnvironment, model: str, serving: Serving
) -> Work:
    """Return the generation and its files. Raises Failure, also for a distilled model, which no worker would run."""
    refuse_undistilled_engine(model, serving)
    pipeline = pipeline_named(request.pipeline)
    assert pipeline is not None, "infra deploys the pipelines of the catalogue"
    roots = environment.asset_buckets
    if request.request_file is not None:
        place = parse_uri(request.request_file)
        content = request_file_content(place, request.request_file_version, roots)
        request = _with_request_file(request, place, read_request_file(content))
    file = _inspect_input(request, roots)
    prompt = read_prompt(request, job_id, environment.state_bucket, roots)
    medium = medium_of(file.key) if file else None
    generation = settle(_parameters_of(request), prompt, pipeline, medium, job_id, serving)
    if request.origin is not None:
        generation = generation.model_copy(update={"given_prompt": request.origin.given_prompt})
    return Work(
        input=file,
        output=request.output,
        document_key=lambda directory, timestamp: generation_document_key(
            directory, file.name if file else None, pipeline, timestamp
        ),
        fields={
            "more_inputs": _inspect_other_files(generation, request, file, roots),
            "prompt": None,
            "prompt_uri": None,
            "system_prompt": "",
            "parameters": Parameters(),
            "generation": generation,
            "origin": request.origin,
        },
    )


def _with_request_file(request: Request, place: S3Location, file: GenerationFile) -> Request:
    """Return the request, completed by its `*.cosmos.json`; fields of the request itself have priority.

    Raises Failure.
    """
    own_parameters = request.generation or GenerationParameters()
    changes: dict[str, Any] = {"generation": file.parameters.overridden_by(own_parameters), "origin": file.origin}
    if request.prompt is None and request.prompt_uri is None:
        changes["prompt"] = prompt_text("prompt", file.prompt)
    elif file.origin is not None:
        changes["origin"] = file.origin.with_another_prompt()
    if request.input is None and file.input is not None:
        changes["input"] = locate("input", file.input, place).uri
    if request.output is None:
        changes["output"] = file.output or S3Location(place.bucket, place.key.rpartition("/")[0]).uri
    return request.model_copy(update=changes)


def _parameters_of(request: Request) -> GenerationParameters:
    """Return a request's parameters; those of the file's metadata replace those of the same name. Raises Failure."""
    if not request.metadata:
        return request.generation or GenerationParameters()
    try:
        _, from_metadata = prompt_and_parameters(request.metadata)
    except ValueError as error:
        raise Failure("InvalidInput", f"{error}.", "Correct the file's metadata and upload it again.") from error
    own_parameters = request.generation or GenerationParameters()
    return read_generation_parameters({**own_parameters.model_dump(exclude_unset=True, by_alias=True), **from_metadata})


def _inspect_input(request: Request, roots: list[str]) -> InputFile | None:
    if request.input is None:
        return None
    version = request.input_version_id or _original_version(request, request.input)
    return inspect(locate_input("input", request.input, None, roots, EXTENSIONS), version)


def _original_version(request: Request, uri: str) -> str | None:
    """Return the version of a file that the original used, if the request repeats an earlier generation."""
    return None if request.origin is None else request.origin.version_of(uri)


def _inspect_other_files(
    generation: Generation, request: Request, file: InputFile | None, roots: list[str]
) -> list[InputFile]:
    """Return the control videos in the model's order, then the file of actions. Raises Failure."""
    named: list[tuple[str, str, tuple[str, ...]]] = []
    if generation.transfer is not None:
        paths = {hint: control.path for hint, control in generation.transfer.controls.items()}
        named = [(f"controls.{hint}", path, VIDEO_EXTENSIONS) for hint, path in paths.items() if path]
    if generation.action is not None and generation.action.path is not None:
        named.append(("actionPath", generation.action.path, ACTION_EXTENSIONS))
    first = None if file is None else S3Location(file.bucket, file.key)
    places = [locate_input(field, name, first, roots, extensions) for field, name, extensions in named]
    return [inspect(place, _original_version(request, place.uri)) for place in places]
