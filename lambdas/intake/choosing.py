"""Which pipelines an uploaded file asks for."""

from collections.abc import Sequence

from cosmos_batch.catalogue.formats import EXTENSIONS, IMAGE_EXTENSIONS, Medium
from cosmos_batch.catalogue.pipelines import PIPELINES, Surface, pipeline_named
from cosmos_batch.contract.environment import PipelineRef
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.s3 import extension
from cosmos_batch.planning.generation.aliases import read_generation_parameters
from cosmos_batch.planning.generation.metadata import prompt_and_parameters
from cosmos_batch.planning.generation.request_file import SIZE_LIMIT, SUFFIX, read_request_file
from cosmos_batch.planning.generation.settling import choose_pipeline
from lambdas.intake.metadata import FileMetadata
from lambdas.s3_objects import StoredObject, read


def chosen_pipelines(key: str, metadata: FileMetadata, pipelines: Sequence[PipelineRef]) -> list[str]:
    """What to run: every pipeline that the extension triggers, and with a question (a prompt or a task) the reasoner
    that the metadata names, with a prompt for a generator the generator that it names.

    A question alone runs one, the smallest if none is named; a prompt for a generator runs the smallest that does what
    it asks. A pipeline that is not enabled, and a file of another format, start all the same: `plan` refuses them where
    the person can see it. Of a file with faults in its metadata, that is done once.
    """
    chosen = _asked_for(key, metadata, pipelines)
    if not metadata.faults:
        return chosen
    return [*chosen, metadata.pipeline or pipelines[0].id][:1]


def _asked_for(key: str, metadata: FileMetadata, pipelines: Sequence[PipelineRef]) -> list[str]:
    chosen = [pipeline.id for pipeline in pipelines if extension(key) in pipeline.auto_trigger]
    named = metadata.pipeline
    if metadata.asks:
        chosen += _for_surface("reasoner", named, chosen) or _enabled("reasoner", pipelines)[:1]
    if metadata.makes:
        chosen += _for_surface("generator", named, chosen) or [_generator_for(key, metadata, pipelines)]
    return list(dict.fromkeys(chosen))


def surface_of(pipeline: str) -> Surface:
    """What is not known counts as a reasoner: `plan` refuses it."""
    found = pipeline_named(pipeline)
    return "reasoner" if found is None else found.surface


def is_request_file(key: str) -> bool:
    """Whether a file is a request for a generation."""
    return key.endswith(SUFFIX)


def requested_pipeline(file: StoredObject, pipelines: Sequence[PipelineRef]) -> str:
    """Of an uploaded request: the pipeline that it names, else the smallest that does the mode; whatever is wrong in
    it, one that `plan` can refuse it for.
    """
    enabled = _enabled("generator", pipelines)
    if file.size > SIZE_LIMIT:
        return enabled[0]
    try:
        said = read_request_file(read(file))
    except Failure:
        return enabled[0]
    return said.pipeline or choose_pipeline(enabled, said.parameters.mode, _medium(said.input or "")) or enabled[0]


def _for_surface(surface: Surface, named: str | None, chosen: list[str]) -> list[str]:
    """The pipeline that is named, or one that was triggered anyway."""
    if named is not None and surface_of(named) == surface:
        return [named]
    return [one for one in chosen if surface_of(one) == surface]


def _enabled(surface: Surface, pipelines: Sequence[PipelineRef]) -> list[str]:
    """Smallest first. Where none is enabled, the smallest that there is: `plan` refuses it with those that are."""
    found = [one.id for one in pipelines if surface_of(one.id) == surface]
    return found or [one.id for one in PIPELINES if one.surface == surface][:1]


def _generator_for(key: str, metadata: FileMetadata, pipelines: Sequence[PipelineRef]) -> str:
    enabled = _enabled("generator", pipelines)
    try:
        mode = read_generation_parameters(prompt_and_parameters(metadata.generation)[1]).mode
    except (Failure, ValueError):
        mode = None
    return choose_pipeline(enabled, mode, _medium(key)) or enabled[0]


def _medium(key: str) -> Medium | None:
    if extension(key) not in EXTENSIONS:
        return None
    return "image" if extension(key) in IMAGE_EXTENSIONS else "video"
