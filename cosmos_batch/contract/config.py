"""`config.json`: what a person decides before `cdk deploy`. It loads the block of a VAMS configuration unchanged."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, SecretStr, ValidationError, field_validator, model_validator

from cosmos_batch.contract import catalogue
from cosmos_batch.contract.base import Model
from cosmos_batch.contract.error import explain
from cosmos_batch.contract.settings import ScalingSettings, WorkerSettings

MAX_COMPUTE_ENVIRONMENTS = 3  # of a Batch job queue; one for each instance type


class ConfigError(Exception):
    """The configuration is wrong. The text names each field, its value and what is allowed."""


def _known_instance_type(name: str) -> str:
    if name not in catalogue.INSTANCE_TYPES:
        raise ValueError(f"not a known instance type; allowed: {', '.join(catalogue.INSTANCE_TYPES)}")
    return name


def _extensions(text: str) -> str:
    for extension in parse_extensions(text):
        if extension not in catalogue.EXTENSIONS:
            raise ValueError(
                f"{extension!r} is not an input format; allowed, separated by commas: {', '.join(catalogue.EXTENSIONS)}"
            )
    return text


def parse_extensions(text: str) -> list[str]:
    """`".mp4, .MOV"` as `[".mp4", ".mov"]`."""
    return [part.strip().lower() for part in text.split(",") if part.strip()]


class ReasonerEntry(Model):
    """One reasoner pipeline."""

    enabled: bool = Field(default=False, description="Deploy this pipeline")
    auto_register_with_vams: bool = Field(
        default=True, alias="autoRegisterWithVAMS", description="Register the pipeline and a workflow with VAMS"
    )
    auto_trigger_on_file_extensions_upload: Annotated[str, AfterValidator(_extensions)] = Field(
        default="", description="Extensions, separated by commas, whose upload alone runs the pipeline"
    )
    model: str | None = Field(
        default=None,
        pattern=r"^([A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}|/.+)$",
        description="Hugging Face id, or the absolute path of a checkpoint in the image; the catalogue's by default",
    )
    engine: str = Field(
        default="transformers",
        pattern=r"^(transformers|[\w.]+:\w+)$",
        description="'transformers', or 'package.module:Class' for an engine of your own",
    )
    instance_types: list[Annotated[str, AfterValidator(_known_instance_type)]] | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_COMPUTE_ENVIRONMENTS,
        description="EC2 types in the order of preference; the catalogue's by default",
    )
    max_vcpus: int = Field(default=192, alias="maxVCpus", ge=1, le=10_000, description="vCPUs of all workers together")

    @field_validator("instance_types")
    @classmethod
    def _no_twins(cls, types: list[str] | None) -> list[str] | None:
        if types and len(set(types)) != len(types):
            raise ValueError("lists a type twice; name each once, the preferred one first")
        return types


class ModelsReason(Model):
    """The reasoners. A pipeline's key is the catalogue's `config_key`."""

    reason_2b: ReasonerEntry = Field(default_factory=ReasonerEntry, alias="reason2B")
    reason_8b: ReasonerEntry = Field(default_factory=ReasonerEntry, alias="reason8B")

    @model_validator(mode="after")
    def _one_worker_fits(self) -> Self:
        for pipeline in catalogue.PIPELINES:
            entry = self.entry(pipeline)
            vcpus = catalogue.worker_resources(pipeline, entry.instance_types or list(pipeline.instance_types)).vcpus
            if entry.max_vcpus < vcpus:
                raise ValueError(
                    f"{pipeline.config_key}.maxVCpus: {entry.max_vcpus} holds no worker; allowed: {vcpus} or more"
                )
        return self

    @model_validator(mode="after")
    def _types_carry_the_model(self) -> Self:
        for pipeline in catalogue.PIPELINES:
            for name in self.entry(pipeline).instance_types or []:
                instance = catalogue.INSTANCE_TYPES[name]
                if instance.gpu_memory_gb < pipeline.min_gpu_memory_gb or instance.gpus < pipeline.gpus_per_worker:
                    has = f"{instance.gpus} x {instance.gpu_memory_gb} GB GPU memory"
                    needs = f"{pipeline.gpus_per_worker} x {pipeline.min_gpu_memory_gb} GB"
                    raise ValueError(
                        f"{pipeline.config_key}.instanceTypes: {name} has {has}, {pipeline.model_size} needs {needs}; "
                        f"allowed: {', '.join(_types_for(pipeline))}"
                    )
        return self

    def entry(self, pipeline: catalogue.Pipeline) -> ReasonerEntry:
        """The entry that configures a pipeline of the catalogue."""
        entries: dict[str, ReasonerEntry] = {
            str(field.alias): getattr(self, name) for name, field in type(self).model_fields.items()
        }
        return entries[pipeline.config_key]


def _types_for(pipeline: catalogue.Pipeline) -> list[str]:
    return [
        name
        for name, instance in catalogue.INSTANCE_TYPES.items()
        if instance.gpu_memory_gb >= pipeline.min_gpu_memory_gb and instance.gpus >= pipeline.gpus_per_worker
    ]


def _refuse_enabled(block: dict[str, Any] | None) -> dict[str, Any] | None:
    for name, entry in (block or {}).items():
        if isinstance(entry, dict) and entry.get("enabled"):
            raise ValueError(f"{name} is not served by Cosmos Batch: set its 'enabled' to false or remove it")
    return block


ForeignModels = Annotated[dict[str, Any] | None, AfterValidator(_refuse_enabled)]


class UseNvidiaCosmos(Model):
    """The block of a VAMS configuration."""

    enabled: bool = Field(default=False, description="Deploy any Cosmos pipeline at all")
    hugging_face_token: SecretStr = Field(
        default=SecretStr(""), strict=False, description="Read token; ends in Secrets Manager and nowhere else"
    )
    use_code_build: bool = Field(default=True, description="Build images in CodeBuild instead of by a local Docker")
    use_warm_instances: bool = Field(default=False, description="Keep workers resident when there is no work")
    warm_instance_count: int = Field(default=1, ge=1, le=100, description="Instances to keep when warm")
    models_reason: ModelsReason = Field(default_factory=ModelsReason)
    models_predict: ForeignModels = Field(default=None, description="Of VAMS; must be disabled")
    models_transfer: ForeignModels = Field(default=None, description="Of VAMS; must be disabled")


class Pipelines(Model):
    """The pipelines of the app."""

    use_nvidia_cosmos: UseNvidiaCosmos = Field(default_factory=UseNvidiaCosmos)


class OwnSettings(Model):
    """Settings of our own, beside those of VAMS."""

    deadline_hours: float = Field(default=72, gt=0, le=240, description="A request that is older fails TimedOut")
    upload_grace_seconds: int = Field(
        default=10, ge=0, le=900, description="An auto-triggered file waits so long for its sidecar"
    )
    worker: WorkerSettings = Field(default_factory=WorkerSettings)
    scaling: ScalingSettings = Field(default_factory=ScalingSettings)


class App(Model):
    """The app."""

    pipelines: Pipelines = Field(default_factory=Pipelines)
    cosmos_batch: OwnSettings = Field(default_factory=OwnSettings)


@dataclass(frozen=True)
class EnabledPipeline:
    """A pipeline of the catalogue as the configuration has it."""

    pipeline: catalogue.Pipeline
    model: str
    engine: str
    instance_types: list[str]
    max_vcpus: int
    auto_trigger: list[str]
    auto_register_with_vams: bool


class Config(Model):
    """The whole of `config.json`."""

    app: App = Field(default_factory=App)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file. Raises `ConfigError` naming each wrong field, its value and what is allowed."""
        try:
            return cls.parse(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} cannot be read: {error}") from error
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read JSON text. Raises `ConfigError`."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise ConfigError(explain(error)) from error

    @property
    def cosmos(self) -> UseNvidiaCosmos:
        """The block `app.pipelines.useNvidiaCosmos`."""
        return self.app.pipelines.use_nvidia_cosmos

    def enabled_pipelines(self) -> list[EnabledPipeline]:
        """What to deploy, smallest model first."""
        if not self.cosmos.enabled:
            return []
        entries = [(pipeline, self.cosmos.models_reason.entry(pipeline)) for pipeline in catalogue.PIPELINES]
        return [
            EnabledPipeline(
                pipeline=pipeline,
                model=entry.model or pipeline.model,
                engine=entry.engine,
                instance_types=entry.instance_types or list(pipeline.instance_types),
                max_vcpus=entry.max_vcpus,
                auto_trigger=parse_extensions(entry.auto_trigger_on_file_extensions_upload),
                auto_register_with_vams=entry.auto_register_with_vams,
            )
            for pipeline, entry in entries
            if entry.enabled
        ]
