"""A pipeline that is deployed, as the stacks and the command see it."""

from dataclasses import dataclass

from cosmos_batch.catalogue.hardware import INSTANCE_TYPES
from cosmos_batch.catalogue.pipelines import Pipeline
from cosmos_batch.contract import capacity
from cosmos_batch.contract.endpoint import Endpoint
from cosmos_batch.contract.generation.engines import guardrail_models
from cosmos_batch.contract.generation.serving import Serving
from cosmos_batch.contract.identity import Identity, configuration_digest
from cosmos_batch.contract.images import IMAGE_OF_ENGINE, IMAGE_OF_SURFACE, Image
from cosmos_batch.contract.model_name import MAIN, is_commit

COSTLY_FROM = 2  # times the price of the preferred instance type


@dataclass(frozen=True)
class EnabledPipeline:
    """A pipeline of the catalogue as the configuration has it. `instance_types` are in the order of preference."""

    pipeline: Pipeline
    model: str
    revision: str
    engine: str
    instance_types: list[str]
    max_vcpus: int
    unasked_types: list[str]  # of them, the fallbacks that the configuration does not name
    auto_trigger: list[str]
    auto_register_with_vams: bool
    use_spot: bool = False
    priority: int = 0
    warm_instances: int = 0
    serving: Serving | None = None
    endpoint: Endpoint | None = None
    upsampler: Endpoint | None = None

    @property
    def image(self) -> Image:
        """The container image that has the engine."""
        return IMAGE_OF_ENGINE.get(self.engine) or IMAGE_OF_SURFACE[self.pipeline.surface]

    @property
    def models(self) -> list[str]:
        """All that its workers load, by name: the model, and what its guardrails consist of."""
        guarded = self.serving is not None and self.serving.guardrails and self.endpoint is None
        return [self.model, *(guardrail_models(self.engine) if guarded else ())]

    @property
    def identity(self) -> Identity:
        """What its jobs are planned for, as far as the configuration says it."""
        asked = self.model if self.endpoint is None else self.endpoint.model or self.endpoint.url
        of_model = asked if self.revision == MAIN else f"{asked}@{self.revision}"
        digest = configuration_digest(
            of_model, self.engine, self.pipeline.context, self.serving, self.endpoint, self.upsampler
        )
        commit = self.revision if is_commit(self.revision) else None
        return Identity(model=asked, revision=commit, engine=self.engine, configuration=digest)

    @property
    def resources(self) -> capacity.WorkerResources:
        """What one worker asks for."""
        return capacity.worker_resources(self.pipeline, self.instance_types)

    @property
    def costly_fallbacks(self) -> list[str]:
        """The fallbacks that nobody asked for and that cost much more than what is preferred."""
        preferred = INSTANCE_TYPES[self.instance_types[0]].dollars_per_hour
        return [name for name in self.unasked_types if INSTANCE_TYPES[name].dollars_per_hour >= COSTLY_FROM * preferred]

    @property
    def warm_workers(self) -> int:
        """How many workers never leave: so many that every GPU of the warm instances has its worker."""
        return self.warm_instances * capacity.workers_per_instance(self.pipeline, self.instance_types[0])

    @property
    def warm_dollars_per_month(self) -> float:
        """What the warm instances cost, whether there is work or not."""
        return self.warm_instances * INSTANCE_TYPES[self.instance_types[0]].dollars_per_month
