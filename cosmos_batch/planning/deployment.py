"""Work out what a configuration deploys: each enabled pipeline with its engine, image, GPUs and instance types."""

from collections.abc import Sequence
from dataclasses import dataclass

from cosmos_batch.catalogue.distillation import fixed_steps_of
from cosmos_batch.catalogue.engines import AUTO, ENDPOINT_ENGINE, Image, guardrail_models, image_for
from cosmos_batch.catalogue.generation import LossyMode
from cosmos_batch.catalogue.hardware import INSTANCE_TYPES
from cosmos_batch.catalogue.pipelines import Pipeline
from cosmos_batch.contract.config import Config
from cosmos_batch.contract.endpoint import Endpoint
from cosmos_batch.contract.entries import (
    MAX_COMPUTE_ENVIRONMENTS,
    REQUIRED,
    GeneratorEntry,
    PipelineEntries,
    PipelineEntry,
    ReasonerEntry,
    parse_extensions,
)
from cosmos_batch.contract.generation.serving import ParallelPlans, Serving
from cosmos_batch.contract.identity import Identity, configuration_digest
from cosmos_batch.contract.model_name import MAIN, ModelName, is_commit
from cosmos_batch.planning.generation.auto_engine import auto_engine
from cosmos_batch.planning.generation.memory import Workload
from cosmos_batch.planning.generation.parallelism import choose_parallel_plans, with_parallel_plans
from cosmos_batch.planning.instance_types import WorkerResources, worker_resources, workers_per_instance

COSTLY_FROM = 2  # times the price of the preferred instance type


@dataclass(frozen=True)
class EnabledPipeline:
    """A pipeline of the catalogue as the configuration deploys it.

    `instance_types` are in the order of preference. `default_fallbacks` are those of them that the catalogue adds
    because the configuration names no fallbacks, and `left_out_types` the catalogue's fallbacks for which the job queue
    has no room. `lossy` are a reasoner's modes; those of a generator are in `serving`.
    """

    pipeline: Pipeline
    model: str
    revision: str
    engine: str
    instance_types: list[str]
    max_vcpus: int
    default_fallbacks: list[str]
    left_out_types: list[str]
    auto_trigger: list[str]
    auto_register_with_vams: bool
    use_spot: bool = False
    priority: int = 0
    warm_instances: int = 0
    serving: Serving | None = None
    lossy: Sequence[LossyMode] = ()
    endpoint: Endpoint | None = None
    upsampler: Endpoint | None = None

    @property
    def image(self) -> Image:
        """Return the container image that contains the engine."""
        return image_for(self.engine, self.pipeline.surface)

    @property
    def models(self) -> list[str]:
        """Return the names of all models that its workers load: its own, and those of its guardrails."""
        guarded = self.serving is not None and self.serving.guardrails and self.endpoint is None
        return [self.model, *(guardrail_models(self.engine) if guarded else ())]

    @property
    def identity(self) -> Identity:
        """Return the identity that jobs are planned for, as far as the configuration determines it."""
        model = self.model if self.endpoint is None else self.endpoint.model or self.endpoint.url
        of_model = model if self.revision == MAIN else f"{model}@{self.revision}"
        digest = configuration_digest(
            of_model, self.engine, self.pipeline.context, self.serving, self.endpoint, self.upsampler, self.lossy
        )
        commit = self.revision if is_commit(self.revision) else None
        return Identity(model=model, revision=commit, engine=self.engine, configuration=digest)

    @property
    def resources(self) -> WorkerResources:
        """Return the GPUs, vCPUs and memory that one worker reserves."""
        return worker_resources(self.pipeline, self.instance_types)

    @property
    def costly_fallbacks(self) -> list[str]:
        """Return the fallbacks of the catalogue that cost much more than the preferred instance type."""
        preferred = INSTANCE_TYPES[self.instance_types[0]].dollars_per_hour
        return [
            name for name in self.default_fallbacks if INSTANCE_TYPES[name].dollars_per_hour >= COSTLY_FROM * preferred
        ]

    @property
    def warm_workers(self) -> int:
        """Return the number of workers that stay without work: enough to use every GPU of the warm instances."""
        return self.warm_instances * workers_per_instance(self.pipeline, self.instance_types[0])

    @property
    def warm_dollars_per_month(self) -> float:
        """Return the monthly price of the warm instances."""
        return self.warm_instances * INSTANCE_TYPES[self.instance_types[0]].dollars_per_month


def enabled_pipelines(config: Config) -> list[EnabledPipeline]:
    """Return the enabled pipelines: reasoners, then generators, each with the smallest model first.

    Raises ValueError where no parallel plan exists; `configuration.parse_config` has checked that they can.
    """
    omni = config.app.pipelines.use_nvidia_cosmos3
    blocks: list[tuple[bool, PipelineEntries]] = [
        (config.cosmos.enabled, config.cosmos.models_reason),
        (omni.enabled, omni.models_omni),
    ]
    return [
        _enabled_pipeline(config, entries, pipeline)
        for enabled, entries in blocks
        for pipeline in entries.pipelines()
        if enabled and entries.entry(pipeline).enabled
    ]


def _enabled_pipeline(config: Config, entries: PipelineEntries, pipeline: Pipeline) -> EnabledPipeline:
    entry = entries.entry(pipeline)
    generator = entry if isinstance(entry, GeneratorEntry) else None
    upsampler = config.app.pipelines.use_nvidia_cosmos3.prompt_upsampling if generator else None
    serving = _serving(generator, pipeline, upsampler is not None) if generator else None
    types = choose_instance_types(entry, pipeline)
    name = ModelName.parse(entry.model or pipeline.model)
    return EnabledPipeline(
        pipeline=planned_pipeline(generator, pipeline) if generator else pipeline,
        model=name.model,
        revision=name.revision,
        engine=serving.engine if serving and entry.endpoint is None else entry.engine,
        instance_types=types.names,
        max_vcpus=entry.max_vcpus,
        default_fallbacks=types.default_fallbacks,
        left_out_types=types.left_out,
        auto_trigger=parse_extensions(entry.auto_trigger_on_file_extensions_upload),
        auto_register_with_vams=entry.auto_register_with_vams,
        use_spot=entry.use_spot,
        priority=entry.priority,
        warm_instances=config.cosmos.warm_instance_count if config.cosmos.use_warm_instances else 0,
        serving=serving,
        lossy=entry.lossy if isinstance(entry, ReasonerEntry) else (),
        endpoint=entry.endpoint,
        upsampler=upsampler,
    )


@dataclass(frozen=True)
class ChosenInstanceTypes:
    """The instance types of one pipeline.

    Attributes
    ----------
    names
        All types in the order in which they are tried.
    default_fallbacks
        Those of `names` that come from the catalogue because the configuration does not name any fallback.
    left_out
        Fallbacks of the catalogue for which the job queue has no room left.
    """

    names: list[str]
    default_fallbacks: list[str]
    left_out: list[str]


def choose_instance_types(entry: PipelineEntry, pipeline: Pipeline) -> ChosenInstanceTypes:
    """Return the configured instance types, then the fallbacks; the catalogue's where the configuration names none."""
    preferred = entry.instance_types or list(pipeline.instance_types)
    if entry.fallback_instance_types is not None:
        fallbacks = [name for name in entry.fallback_instance_types if name not in preferred]
        return ChosenInstanceTypes([*preferred, *fallbacks], [], [])
    fallbacks = [name for name in pipeline.fallback_instance_types if name not in preferred]
    room = max(0, most_instance_types(entry) - len(preferred))
    return ChosenInstanceTypes([*preferred, *fallbacks[:room]], fallbacks[:room], fallbacks[room:])


def most_instance_types(entry: PipelineEntry) -> int:
    """Return how many instance types fit into the pipeline's job queue. Spot instances take one place."""
    return MAX_COMPUTE_ENVIRONMENTS - entry.use_spot


def engine_name(entry: GeneratorEntry, pipeline: Pipeline) -> str:
    """Return the engine that runs a generator: the configured one, or what 'auto' is on the pipeline's types."""
    if entry.engine != AUTO:
        return entry.engine
    types = choose_instance_types(entry, pipeline).names
    workload = _largest_workload(entry, pipeline)
    return auto_engine(pipeline, served_model(entry, pipeline), types, workload, entry.objective, entry.lossy)


def serving_engine(entry: GeneratorEntry, pipeline: Pipeline) -> str:
    """Return the engine whose abilities a generator's jobs are planned with: for an endpoint, its server's."""
    if entry.endpoint is None:
        return engine_name(entry, pipeline)
    return ENDPOINT_ENGINE["generator", entry.endpoint.api]


def served_model(entry: GeneratorEntry, pipeline: Pipeline) -> str:
    """Return the name of the model that answers, at whatever revision: the endpoint's, or the one that is loaded."""
    if entry.endpoint is not None:
        return entry.endpoint.model or pipeline.model
    return ModelName.parse(entry.model or pipeline.model).model


def parallel_plans(entry: GeneratorEntry, pipeline: Pipeline) -> ParallelPlans:
    """Return how the GPUs of a worker share a job, for each kind of GPU; nothing if a server runs the model.

    Raises ValueError where no plan exists.
    """
    if entry.endpoint is not None:
        return {}
    types = choose_instance_types(entry, pipeline).names
    try:
        return choose_parallel_plans(
            pipeline, engine_name(entry, pipeline), types, _largest_workload(entry, pipeline), entry.objective
        )
    except ValueError as error:
        raise ValueError(f"{pipeline.config_key}.instanceTypes: {error}") from error


def planned_pipeline(entry: GeneratorEntry, pipeline: Pipeline) -> Pipeline:
    """Return the pipeline with the number and the memory of the GPUs that its plans use. Raises ValueError."""
    plans = parallel_plans(entry, pipeline)
    return (
        with_parallel_plans(pipeline, engine_name(entry, pipeline), plans, _largest_workload(entry, pipeline))
        if plans
        else pipeline
    )


def _serving(entry: GeneratorEntry, pipeline: Pipeline, upsamples: bool) -> Serving:
    return Serving(
        engine=serving_engine(entry, pipeline),
        by_url=entry.endpoint is not None,
        guardrails=bool(entry.guardrails),
        guardrails_required=entry.guardrails == REQUIRED,
        max_resolution=entry.max_resolution,
        upsamples=upsamples,
        fixed_steps=fixed_steps_of(served_model(entry, pipeline)),
        lossy=entry.lossy,
        plans=parallel_plans(entry, pipeline),
    )


def _largest_workload(entry: GeneratorEntry, pipeline: Pipeline) -> Workload:
    distilled = fixed_steps_of(served_model(entry, pipeline)) is not None
    return Workload.largest(pipeline.modes, entry.max_resolution, bool(entry.guardrails), distilled)
