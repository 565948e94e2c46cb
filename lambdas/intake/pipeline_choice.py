"""Choose the pipelines that an uploaded file runs through."""

from collections.abc import Sequence

from cosmos_batch.catalogue.formats import EXTENSIONS, Medium, extension, medium_of
from cosmos_batch.catalogue.pipelines import PIPELINES, Surface, pipeline_named
from cosmos_batch.contract.environment import PipelineRef
from cosmos_batch.contract.error import Failure
from cosmos_batch.planning.generation.aliases import read_generation_parameters
from cosmos_batch.planning.generation.metadata import prompt_and_parameters
from cosmos_batch.planning.generation.request_file import SIZE_LIMIT, SUFFIX, read_request_file
from cosmos_batch.planning.generation.settling import choose_pipeline
from lambdas.intake.metadata import FileMetadata
from lambdas.s3_objects import StoredObject, Unreadable, read


def choose_pipelines(key: str, metadata: FileMetadata, pipelines: Sequence[PipelineRef]) -> list[str]:
    """Return the ids of the pipelines to run on a file; `pipelines` are the enabled ones, smallest model first.

    These are the pipelines that the file's extension triggers, and

    - for a question, which is a prompt or a task: the reasoner that the metadata names, else every triggered reasoner,
      else the smallest one;
    - for a prompt for a generator: the generator that the metadata names, else every triggered generator, else the
      smallest one that has the mode.

    A pipeline that is not enabled and a file of another format are chosen too: `plan` refuses them, and the refusal
    reaches the uploader. If the metadata has faults, one pipeline is enough to refuse it.
    """
    chosen = _requested_pipelines(key, metadata, pipelines)
    if not metadata.faults:
        return chosen
    return [*chosen, metadata.pipeline or pipelines[0].id][:1]


def is_request_file(key: str) -> bool:
    """Return whether a file is a request for a generation, by its name."""
    return key.endswith(SUFFIX)


def pipeline_of_request_file(file: StoredObject, pipelines: Sequence[PipelineRef]) -> str:
    """Return the pipeline that a request file names, or else the smallest enabled one that has its mode.

    For a file that cannot be read it is the smallest enabled generator: `plan` then refuses the request.
    """
    enabled = _enabled("generator", pipelines)
    if file.size > SIZE_LIMIT:
        return enabled[0]
    try:
        request = read_request_file(read(file))
    except (Failure, Unreadable):
        return enabled[0]
    chosen = choose_pipeline(enabled, request.parameters.mode, _medium(request.input or ""))
    return request.pipeline or chosen or enabled[0]


def surface_of(pipeline: str) -> Surface:
    """Return whether a pipeline is a reasoner or a generator; an unknown one is a reasoner, and `plan` refuses it."""
    known = pipeline_named(pipeline)
    return "reasoner" if known is None else known.surface


def _requested_pipelines(key: str, metadata: FileMetadata, pipelines: Sequence[PipelineRef]) -> list[str]:
    chosen = [pipeline.id for pipeline in pipelines if extension(key) in pipeline.auto_trigger]
    named = metadata.pipeline
    if metadata.asks_reasoner:
        chosen += _of_surface("reasoner", named, chosen) or _enabled("reasoner", pipelines)[:1]
    if metadata.asks_generator:
        chosen += _of_surface("generator", named, chosen) or [_generator_with_mode(key, metadata, pipelines)]
    return list(dict.fromkeys(chosen))


def _of_surface(surface: Surface, named: str | None, chosen: list[str]) -> list[str]:
    """Return the named pipeline if it is of this surface, or else the chosen ones that are."""
    if named is not None and surface_of(named) == surface:
        return [named]
    return [pipeline for pipeline in chosen if surface_of(pipeline) == surface]


def _enabled(surface: Surface, pipelines: Sequence[PipelineRef]) -> list[str]:
    """Return the enabled pipelines of a surface, smallest model first.

    If there are none, return the smallest that is not enabled: `plan` refuses it and names the enabled pipelines.
    """
    enabled = [pipeline.id for pipeline in pipelines if surface_of(pipeline.id) == surface]
    return enabled or [pipeline.id for pipeline in PIPELINES if pipeline.surface == surface][:1]


def _generator_with_mode(key: str, metadata: FileMetadata, pipelines: Sequence[PipelineRef]) -> str:
    enabled = _enabled("generator", pipelines)
    try:
        mode = read_generation_parameters(prompt_and_parameters(metadata.generation)[1]).mode
    except (Failure, ValueError):
        mode = None
    return choose_pipeline(enabled, mode, _medium(key)) or enabled[0]


def _medium(key: str) -> Medium | None:
    return medium_of(key) if extension(key) in EXTENSIONS else None
