"""`app.cosmosBatch.vams`: the VAMS deployment whose workflows run our pipelines."""

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from cosmos_batch.contract.base import Model
from cosmos_batch.contract.s3 import S3Location
from cosmos_batch.contract.settings import QUEUE_DAYS
from cosmos_batch.contract.storage import KMS_KEY_ARN, AdoptedBucket

TASK_TIMEOUT_SECONDS = 28_800  # the task timeout with which VAMS registers its own Cosmos pipelines
MARGIN_SECONDS = 900  # a job's deadline is this much earlier, so that VAMS receives its error before it times out

# The prefix of all files of runs before VAMS moves them onto the asset, and below it the prefix of the manifests,
# configurations and metadata of runs. Both are in VAMS's default asset bucket: in 2.5 at its root, in 2.6 below the
# prefix with which the bucket is registered (`baseAssetsPrefix`, see defaultBucket.py of VAMS).
RUNS = "pipelines/"
EXECUTION_INPUTS = f"{RUNS}workflowExecutionInputs/"

VamsVersion = Literal["2.5", "2.6"]
BucketRoot = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/([^/*?][^*?]*/)?)?$", strict=True)
]


class VamsSettings(Model):
    """The VAMS deployment that runs the pipelines. Without this block, the app is deployed alone."""

    version: VamsVersion = Field(description="Of VAMS: 2.6 and later register pipelines in another way than 2.5")
    import_function_name: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9_-]{1,64}$",
        description="VAMS's Lambda importGlobalPipelineWorkflow, by its deployed name. By default nothing is "
        "registered, whatever autoRegisterWithVAMS says",
    )
    task_timeout_seconds: int = Field(
        default=TASK_TIMEOUT_SECONDS,
        ge=1800,
        le=86_400 * QUEUE_DAYS,
        description="Seconds for which a workflow of VAMS waits for a pipeline; our deadline is 15 minutes less",
    )
    buckets: list[BucketRoot] = Field(
        default_factory=list,
        description="VAMS's asset buckets, each as 'bucket' or, where VAMS has it with a base prefix, "
        "'bucket/prefix/'. Files there may be inputs and take "
        "results; uploads to them start jobs through VAMS alone",
    )
    kms_key_arn: str | None = Field(
        default=None, pattern=KMS_KEY_ARN, description="The customer key that encrypts VAMS's buckets, if one does"
    )
    callback_role_arn: str | None = Field(
        default=None,
        pattern=r"^arn:[a-z-]+:iam::\d{12}:role/[\w+=,.@/-]+$",
        description="With VAMS in another account: a role there, which answers task tokens for us",
    )
    orchestration_bus_name: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9._/-]+$",
        max_length=256,
        description="VAMS 2.6's orchestration bus, where our executions are registered: an abort in VAMS stops them",
    )

    @property
    def adopted_buckets(self) -> list[AdoptedBucket]:
        """Return the buckets for the storage stack. Their uploads start no jobs here: VAMS starts them itself."""
        return [
            AdoptedBucket(name=name, prefix=prefix, kms_key_arn=self.kms_key_arn)
            for name, _, prefix in (root.partition("/") for root in self.buckets)
        ]

    @property
    def execution_inputs(self) -> list[S3Location]:
        """Return the prefixes below which VAMS 2.6 may write manifests."""
        return self._below_base_prefixes(EXECUTION_INPUTS)

    @property
    def runs(self) -> list[S3Location]:
        """Return the prefixes below which runs of VAMS 2.6 write results until VAMS moves them."""
        return self._below_base_prefixes(RUNS)

    def _below_base_prefixes(self, path: str) -> list[S3Location]:
        """Return a location in each bucket, because the configuration does not say which is VAMS's default one."""
        if self.version == "2.5":
            return []
        places = [
            S3Location(bucket.name, path if path.startswith(bucket.prefix) else bucket.prefix + path)
            for bucket in self.adopted_buckets
        ]
        return list(dict.fromkeys(places))

    @model_validator(mode="after")
    def _holds_runs(self) -> Self:
        if self.version != "2.5" or not self.buckets:
            return self
        if not any(RUNS.startswith(bucket.prefix) for bucket in self.adopted_buckets):
            name = self.adopted_buckets[0].name
            raise ValueError(
                f"buckets: VAMS 2.5 keeps its runs below '{RUNS}' of its default bucket, which none of "
                f"{', '.join(self.buckets)} holds; add '{name}/{RUNS}' or '{name}'"
            )
        return self

    @model_validator(mode="after")
    def _no_twins(self) -> Self:
        if len({root.rstrip("/") for root in self.buckets}) != len(self.buckets):
            raise ValueError("buckets: names a bucket and prefix twice; name each once")
        return self

    @model_validator(mode="after")
    def _has_a_bus(self) -> Self:
        if self.version == "2.5" and self.orchestration_bus_name is not None:
            raise ValueError("orchestrationBusName: VAMS has an orchestration bus since 2.6, and version is '2.5'")
        return self
