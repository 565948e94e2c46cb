"""The schema of `config.json`. The block of a VAMS configuration can be used unchanged.

`planning/configuration.py` reads a file and checks its fields against each other and against the catalogue.
"""

from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from cosmos_batch.contract.base import Model
from cosmos_batch.contract.endpoint import ChatEndpoint
from cosmos_batch.contract.entries import (
    ModelsOmni,
    ModelsReason,
)
from cosmos_batch.contract.images import ImageSettings
from cosmos_batch.contract.network import NetworkSettings
from cosmos_batch.contract.operations import OperationsSettings
from cosmos_batch.contract.settings import QUEUE_DAYS, ScalingSettings, WorkerSettings
from cosmos_batch.contract.storage import KMS_KEY_ARN, StorageSettings
from cosmos_batch.contract.vams import VamsSettings


def _refuse_enabled(block: dict[str, Any] | None) -> dict[str, Any] | None:
    for name, entry in (block or {}).items():
        if isinstance(entry, dict) and entry.get("enabled"):
            raise ValueError(f"{name} is not served by Cosmos Batch: set its 'enabled' to false or remove it")
    return block


ForeignModels = Annotated[dict[str, Any] | None, AfterValidator(_refuse_enabled)]


class UseNvidiaCosmos(Model):
    """Settings of the reasoners, and settings that all pipelines share; the block of a VAMS configuration."""

    enabled: bool = Field(default=False, description="Deploy any reasoner at all")
    hugging_face_token: SecretStr = Field(
        default=SecretStr(""), strict=False, description="Read token; ends in Secrets Manager and nowhere else"
    )
    hugging_face_token_secret_arn: str | None = Field(
        default=None,
        pattern=r"^arn:[a-z-]+:secretsmanager:[a-z0-9-]+:\d{12}:secret:[\w/+=.@-]+-[A-Za-z0-9]{6}$",
        description="An existing secret whose value is the token, in place of huggingFaceToken; its whole ARN, which "
        "ends in six characters that AWS drew",
    )
    hugging_face_token_secret_key_arn: str | None = Field(
        default=None, pattern=KMS_KEY_ARN, description="The customer key that encrypts that secret, if one does"
    )
    use_code_build: bool = Field(default=True, description="Build images in CodeBuild instead of by a local Docker")
    use_warm_instances: bool = Field(default=False, description="Keep workers resident when there is no work")
    warm_instance_count: int = Field(
        default=1, ge=1, le=100, description="Instances to keep when warm, for each pipeline, every GPU in use"
    )
    models_reason: ModelsReason = Field(default_factory=ModelsReason, description="The reasoner pipelines")
    models_predict: ForeignModels = Field(
        default=None, description="A block of VAMS's configuration; it must be disabled"
    )
    models_transfer: ForeignModels = Field(
        default=None, description="A block of VAMS's configuration; it must be disabled"
    )

    @model_validator(mode="after")
    def _one_token(self) -> Self:
        if self.hugging_face_token.get_secret_value() and self.hugging_face_token_secret_arn:
            raise ValueError("huggingFaceToken: is given together with huggingFaceTokenSecretArn; remove one of them")
        if self.hugging_face_token_secret_key_arn and not self.hugging_face_token_secret_arn:
            raise ValueError("huggingFaceTokenSecretKeyArn: there is no secret; give huggingFaceTokenSecretArn too")
        return self


class UseNvidiaCosmos3(Model):
    """Settings of the generators. Token, images and warm instances are those of `useNvidiaCosmos`."""

    enabled: bool = Field(default=False, description="Deploy any generator at all")
    models_omni: ModelsOmni = Field(default_factory=ModelsOmni, description="The generator pipelines")
    prompt_upsampling: ChatEndpoint | None = Field(
        default=None, description="Whose model writes prompts of upsamplePrompt"
    )


class Pipelines(Model):
    """Settings of all pipelines."""

    use_nvidia_cosmos: UseNvidiaCosmos = Field(
        default_factory=UseNvidiaCosmos, description="The reasoners, and what all pipelines share"
    )
    use_nvidia_cosmos3: UseNvidiaCosmos3 = Field(
        default_factory=UseNvidiaCosmos3, alias="useNvidiaCosmos3", description="The generators"
    )


class OwnSettings(Model):
    """Settings of Cosmos Batch that VAMS does not have."""

    deadline_hours: float = Field(
        default=72, gt=0, le=24 * QUEUE_DAYS, description="A request that is older fails TimedOut"
    )
    upload_grace_seconds: int = Field(
        default=10, ge=0, le=900, description="Seconds for which an upload waits for its sidecar file"
    )
    network: NetworkSettings = Field(default_factory=NetworkSettings, description="Where workers run")
    storage: StorageSettings = Field(default_factory=StorageSettings, description="What is kept where")
    operations: OperationsSettings = Field(default_factory=OperationsSettings, description="Alarms, logs, costs")
    images: ImageSettings = Field(default_factory=ImageSettings, description="How images are built")
    worker: WorkerSettings = Field(default_factory=WorkerSettings, description="Clocks of a worker")
    scaling: ScalingSettings = Field(default_factory=ScalingSettings, description="How many workers")
    vams: VamsSettings | None = Field(default=None, description="The VAMS deployment that runs our pipelines, if any")

    @model_validator(mode="after")
    def _an_upload_runs_once(self) -> Self:
        triggering = [bucket for bucket in self.storage.asset_buckets if bucket.trigger_on_upload]
        for bucket in triggering:
            for vams_bucket in self.vams.adopted_buckets if self.vams else []:
                if bucket.holds(vams_bucket) or vams_bucket.holds(bucket):
                    raise ValueError(
                        f"storage.assetBuckets: an upload to '{bucket.root}' would run twice, for VAMS starts runs of "
                        f"'{vams_bucket.root}' itself; set triggerOnUpload to false"
                    )
        return self

    @model_validator(mode="after")
    def _a_budget_has_a_reader(self) -> Self:
        if self.operations.monthly_budget_dollars is not None and self.operations.alarm_email is None:
            raise ValueError("operations.monthlyBudgetDollars: nobody would hear of it; set operations.alarmEmail too")
        return self


class App(Model):
    """The whole application."""

    pipelines: Pipelines = Field(default_factory=Pipelines, description="As VAMS writes them")
    cosmos_batch: OwnSettings = Field(default_factory=OwnSettings, description="Settings of our own")


class Config(Model):
    """The content of `config.json`."""

    app: App = Field(default_factory=App, description="The app")

    @property
    def cosmos(self) -> UseNvidiaCosmos:
        """Return the block `app.pipelines.useNvidiaCosmos`."""
        return self.app.pipelines.use_nvidia_cosmos

    @property
    def own(self) -> OwnSettings:
        """Return the block `app.cosmosBatch`."""
        return self.app.cosmos_batch
