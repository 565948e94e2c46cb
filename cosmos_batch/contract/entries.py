"""The configuration of each pipeline: the blocks `modelsReason` and `modelsOmni`, as VAMS writes them."""

from typing import Annotated, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, Field, field_validator, model_validator

from cosmos_batch.catalogue.engines import AUTO, DEFAULT_GENERATOR, ENDPOINT, listed_names, names_for
from cosmos_batch.catalogue.formats import EXTENSIONS
from cosmos_batch.catalogue.hardware import INSTANCE_TYPES
from cosmos_batch.catalogue.pipelines import PIPELINES, Pipeline, Surface
from cosmos_batch.contract.base import Model
from cosmos_batch.contract.endpoint import ChatEndpoint, Endpoint
from cosmos_batch.contract.generation.serving import LossyModes
from cosmos_batch.contract.model_name import MODEL_NAME_PATTERN

# A Batch job queue takes at most three compute environments. Each instance type has one, and so has Spot.
# https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html
MAX_COMPUTE_ENVIRONMENTS = 3

Objective = Literal["throughput", "latency"]


def _known_instance_type(name: str) -> str:
    if name not in INSTANCE_TYPES:
        raise ValueError(f"not a known instance type; allowed: {', '.join(INSTANCE_TYPES)}")
    return name


def _extensions(text: str) -> str:
    for extension in parse_extensions(text):
        if extension not in EXTENSIONS:
            raise ValueError(
                f"{extension!r} is not an input format; allowed, separated by commas: {', '.join(EXTENSIONS)}"
            )
    return text


def parse_extensions(text: str) -> list[str]:
    """Return the extensions of a text: `".mp4, .MOV"` is `[".mp4", ".mov"]`."""
    return [part.strip().lower() for part in text.split(",") if part.strip()]


InstanceTypeName = Annotated[str, AfterValidator(_known_instance_type)]
REQUIRED = "required"
CUSTOM_ENGINE = r"[\w.]+:\w+"


def _pattern(surface: Surface) -> str:
    """Return a regular expression of what a pipeline's `engine` may say."""
    names = (AUTO, *names_for(surface), ENDPOINT, CUSTOM_ENGINE)
    return rf"^({'|'.join(names)})$"


class PipelineEntry(Model):
    """The settings that every pipeline has."""

    enabled: bool = Field(default=False, description="Deploy this pipeline")
    auto_register_with_vams: bool = Field(
        default=True, alias="autoRegisterWithVAMS", description="Register the pipeline and a workflow with VAMS"
    )
    auto_trigger_on_file_extensions_upload: Annotated[str, AfterValidator(_extensions)] = Field(
        default="", description="Extensions, separated by commas, whose upload alone runs the pipeline"
    )
    model: str | None = Field(
        default=None,
        pattern=MODEL_NAME_PATTERN,
        description="Hugging Face id, with `@` and a commit, tag or branch if not `main`, or the absolute path of a "
        "checkpoint in the image; the catalogue's by default",
    )
    instance_types: list[InstanceTypeName] | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_COMPUTE_ENVIRONMENTS,
        description="EC2 types in the order of preference; the catalogue's by default",
    )
    fallback_instance_types: list[InstanceTypeName] | None = Field(
        default=None,
        max_length=MAX_COMPUTE_ENVIRONMENTS - 1,
        description="EC2 types for when none of `instanceTypes` is available; by default the catalogue's that fit. "
        "[] leaves them out",
    )
    use_spot: bool = Field(
        default=False, description="Try Spot instances of all the types first, On-Demand ones after them"
    )
    max_vcpus: int = Field(
        default=192,
        alias="maxVCpus",
        ge=1,
        le=10_000,
        description="vCPUs of all workers together. Their instances may have more: a worker asks for a GPU's share "
        "of the listed type that has the fewest vCPUs for each, and on the others some are left over",
    )
    priority: int = Field(
        default=0, ge=0, le=100, description="Under `maxTotalVCpus`, pipelines of a higher number have GPUs first"
    )

    @field_validator("instance_types", "fallback_instance_types")
    @classmethod
    def _no_twins(cls, types: list[str] | None) -> list[str] | None:
        if types and len(set(types)) != len(types):
            raise ValueError("lists a type twice; name each once, the preferred one first")
        return types


Served = TypeVar("Served", "ReasonerEntry", "GeneratorEntry")


def _with_its_engine(entry: Served) -> Served:
    if (entry.engine == ENDPOINT) != (entry.endpoint is not None):
        raise ValueError("endpoint: belongs to the engine 'endpoint'; give both, or neither")
    return entry


class ReasonerEntry(PipelineEntry):
    """The settings of a reasoner pipeline."""

    engine: str = Field(
        default=AUTO,
        pattern=_pattern("reasoner"),
        description="'auto' is vLLM on a GPU, and Transformers on a machine without a GPU or without vLLM; "
        f"{listed_names('reasoner')}, 'endpoint' for a server of yours, or 'package.module:Class' for an engine of "
        "your own",
    )
    endpoint: ChatEndpoint | None = Field(
        default=None, description="With engine 'endpoint': a server that speaks OpenAI chat completions, such as a NIM"
    )
    lossy: LossyModes = Field(
        default_factory=list,
        description="Modes of vLLM that are faster, and change the answers or notice less: 'fp8' converts the weights "
        "to FP8 as it loads them, 'fp8Cache' keeps keys and values of the context in FP8, and 'gpuDecode' decodes "
        "large videos on the GPU, which does not notice damage within a frame",
    )

    _endpoint_has_its_engine = model_validator(mode="after")(_with_its_engine)


class GeneratorEntry(PipelineEntry):
    """The settings of a generator pipeline."""

    engine: str = Field(
        default=AUTO,
        pattern=_pattern("generator"),
        description="'auto' is 'diffusers' for videos where all instance types, the fallbacks too, have H100 or H200, "
        "one GPU holds the largest job, and neither 'objective' nor 'lossy' requires another engine; otherwise it is "
        f"'{DEFAULT_GENERATOR}'. To choose it yourself: {listed_names('generator')}, 'endpoint' for a server of yours, "
        "or 'package.module:Class' for an engine of your own",
    )
    endpoint: Endpoint | None = Field(
        default=None,
        description="With engine 'endpoint': a server of vLLM-Omni, or with api 'nim' a NIM of Cosmos 3's generator",
    )
    guardrails: bool | Literal["required"] = Field(
        default=True,
        description="Check prompts and outputs with NVIDIA's guardrails, which blur faces too: true lets a request "
        "switch them off, 'required' lets none, and with false no request can switch them on. With an endpoint it must "
        "be said whether its server was started with them; 'required' is impossible there, for no server reports its "
        "checks",
    )
    max_resolution: Literal["256p", "480p", "720p"] = Field(
        default="720p",
        description="Largest videos, in NVIDIA's tiers; smaller ones let more workers onto an instance. A larger job "
        "is refused",
    )
    objective: Objective = Field(
        default="throughput",
        description="'throughput' runs as many workers as fit; 'latency' gives each job all GPUs of an instance",
    )

    lossy: LossyModes = Field(
        default_factory=list,
        description="Modes that are faster and change what is made: 'seaCache' of vLLM-Omni, 'fp8', 'fp8Attention' and "
        "'stepCache' of Diffusers",
    )

    _endpoint_has_its_engine = model_validator(mode="after")(_with_its_engine)


class PipelineEntries(Model):
    """The settings of all pipelines of a surface. The alias of a field is the `config_key` of a pipeline."""

    surface: ClassVar[Surface]

    def entry(self, pipeline: Pipeline) -> ReasonerEntry | GeneratorEntry:
        """Return the settings of a pipeline of this surface."""
        entries: dict[str, ReasonerEntry | GeneratorEntry] = {
            str(field.alias): getattr(self, name) for name, field in type(self).model_fields.items()
        }
        return entries[pipeline.config_key]

    @classmethod
    def pipelines(cls) -> list[Pipeline]:
        """Return the pipelines of this surface, smallest model first."""
        return [pipeline for pipeline in PIPELINES if pipeline.surface == cls.surface]


class ModelsReason(PipelineEntries):
    """The settings of the reasoners."""

    surface = "reasoner"

    reason_2b: ReasonerEntry = Field(default_factory=ReasonerEntry, alias="reason2B", description="Cosmos-Reason2 2B")
    edge: ReasonerEntry = Field(
        default_factory=ReasonerEntry, alias="reasonEdge", description="Cosmos 3 Edge, its reasoner; needs no token"
    )
    reason_8b: ReasonerEntry = Field(default_factory=ReasonerEntry, alias="reason8B", description="Cosmos-Reason2 8B")
    nano: ReasonerEntry = Field(
        default_factory=ReasonerEntry, alias="reasonNano", description="Cosmos 3 Nano, its reasoner"
    )
    reason_32b: ReasonerEntry = Field(
        default_factory=ReasonerEntry, alias="reason32B", description="Cosmos-Reason2 32B"
    )
    super: ReasonerEntry = Field(
        default_factory=ReasonerEntry, alias="reasonSuper", description="Cosmos 3 Super, its reasoner"
    )


class ModelsOmni(PipelineEntries):
    """The settings of the generators."""

    surface = "generator"

    edge: GeneratorEntry = Field(
        default_factory=GeneratorEntry,
        alias="edge4B",
        description="Cosmos 3 Edge; only its guardrails need a token",
    )
    nano: GeneratorEntry = Field(default_factory=GeneratorEntry, alias="nano16B", description="Cosmos 3 Nano")
    super: GeneratorEntry = Field(default_factory=GeneratorEntry, alias="super64B", description="Cosmos 3 Super")
    super_text2image: GeneratorEntry = Field(
        default_factory=GeneratorEntry, alias="superText2Image64B", description="Cosmos 3 Super, text to image"
    )
    super_image2video: GeneratorEntry = Field(
        default_factory=GeneratorEntry, alias="superImage2Video64B", description="Cosmos 3 Super, image to video"
    )
    super_text2image_4step: GeneratorEntry = Field(
        default_factory=GeneratorEntry,
        alias="superText2Image4Step",
        description="Cosmos 3 Super, text to image, distilled to four steps",
    )
    super_image2video_4step: GeneratorEntry = Field(
        default_factory=GeneratorEntry,
        alias="superImage2Video4Step",
        description="Cosmos 3 Super, image to video, distilled to four steps",
    )
