"""The environment variables of each Lambda function and of the worker: `infra` writes them, they read them.

One model for both sides, so that a variable cannot be forgotten on one of them. A variable's name is the field's in
capitals; lists and models are JSON. A Lambda's variables may hold 4 KB in all, measured as one JSON object in which the
quotes of a value are escaped.
"""

import json
import os
from collections.abc import Mapping
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cosmos_batch.contract.base import Model
from cosmos_batch.contract.endpoint import Endpoint
from cosmos_batch.contract.error import explain
from cosmos_batch.contract.generation.serving import LossyModes, Serving
from cosmos_batch.contract.identity import Identity
from cosmos_batch.contract.model_name import MAIN
from cosmos_batch.contract.settings import ScalingSettings, WorkerSettings

# The delay of the nudge queue, and the width of the time bucket by which nudges are deduplicated. They are one number
# because none may be lost: a nudge is dropped only if another of its bucket was sent less than a bucket ago, and that
# one, delayed by as much, has not been delivered yet.
NUDGE_SECONDS = 2

FUNCTION_MEBIBYTES = 512  # the memory of each function


class Environment(BaseModel):
    """Environment variables as a model: a process reads them with `read`, `infra` writes them with `variables`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    @classmethod
    def read(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """Return the environment of this process. Raises RuntimeError that names missing or wrong variables."""
        texts = {name: environ[name.upper()] for name in cls.model_fields if name.upper() in environ}
        try:
            return cls.model_validate({name: _read(cls, name, text) for name, text in texts.items()})
        except ValidationError as error:
            raise RuntimeError(f"environment variables of this process are wrong:\n{explain(error).upper()}") from error

    def variables(self) -> dict[str, str]:
        """Return the variables by name for a function or a container definition; values of None are left out."""
        return {
            name.upper(): value if isinstance(value, str) else _write(self, name)
            for name in type(self).model_fields
            if (value := getattr(self, name)) is not None
        }


def _read(cls: type[Environment], name: str, text: str) -> object:
    if cls.model_fields[name].annotation in (str, str | None):
        return text
    return json.loads(text)


def _write(environment: Environment, name: str) -> str:
    return json.dumps(environment.model_dump(mode="json", include={name})[name], separators=(",", ":"))


class PipelineRef(Model):
    """An enabled pipeline for the functions `upload` and `vams`. Lists have the smallest model first."""

    id: str
    auto_trigger: list[str] = Field(default_factory=list, description="Extensions")


class DeployedQueue(Model):
    """The queue of a pipeline, and what its jobs are planned for."""

    id: str
    queue_url: str
    identity: Identity = Field(description="What its jobs are planned for")
    revision: str = Field(default=MAIN, description="Of the model, as it is configured")
    serving: Serving | None = Field(default=None, description="Of a generator")


class DeployedCompute(Model):
    """The Batch resources and limits of a pipeline's workers."""

    id: str
    queue_url: str
    job_queue: str = Field(description="ARN of the Batch job queue")
    job_definition: str = Field(description="ARN, with its revision")
    max_workers: int = Field(ge=1, description="maxVCpus in workers")
    vcpus: int = Field(ge=1, description="Of one worker")
    warm_workers: int = Field(default=0, ge=0, description="Number of workers that stay even without work")
    priority: int = Field(default=0, description="Under a total of vCPUs, a higher one is served first")
    max_life_hours: float = Field(description="Hours after which a worker is replaced, plus or minus a tenth")
    gpu: str = Field(default="L40S", description="Kind of GPU of the preferred instance type")
    gpus: int = Field(default=1, ge=1, description="Of one worker")
    instance_types: list[str] = Field(default_factory=list, description="In the order of preference, for estimates")
    use_spot: bool = Field(default=False, description="Whether Spot instances of these types are tried first")


class DeployedPipeline(Model):
    """An enabled pipeline for the functions `plan` and `scale`: the value of its SSM parameter, as JSON.

    All pipelines together do not fit into the 4 KB of a function's environment variables.
    """

    queue: DeployedQueue
    compute: DeployedCompute

    @classmethod
    def read(cls, text: str) -> Self:
        """Read a parameter. Unknown fields are ignored, because a function may be older than the parameter."""
        return cls.model_validate_json(text, extra="ignore")


class UploadEnvironment(Environment):
    """The environment of the function `lambdas/handlers/upload.py`."""

    state_machine_arn: str
    state_table: str
    state_bucket: str
    upload_queue_url: str
    pipelines: list[PipelineRef]
    grace_seconds: int


class VamsEnvironment(Environment):
    """The environment of the function `lambdas/handlers/vams.py`, which exists once for each pipeline."""

    state_machine_arn: str
    state_table: str
    state_bucket: str
    pipeline: str
    task_timeout_seconds: int = Field(description="VAMS's own; a request's deadline is 15 minutes before it")
    callback_role_arn: str | None = Field(default=None, description="Answers tokens in VAMS's account, if not in ours")
    orchestration_bus: str | None = Field(default=None, description="ARN; executions are registered there")
    log_group_arn: str = Field(description="Of our state machine's log, for whoever looks at a run in VAMS")


class PlanningEnvironment(Environment):
    """The environment that all functions share which plan jobs."""

    state_table: str
    state_bucket: str
    asset_buckets: list[str] = Field(description="`bucket` or `bucket/prefix/`: where inputs and outputs may lie")
    pipeline_parameters: list[str] = Field(
        description="Names of the SSM parameters that hold a `DeployedPipeline` each"
    )
    pipelines_digest: str = Field(
        description="Changes with what those parameters say. A function reads them once in each of its processes, and "
        "Lambda starts new processes when a variable changes"
    )
    nudge_queue_url: str


class PlanEnvironment(PlanningEnvironment):
    """The environment of the function `lambdas/handlers/plan.py`."""

    deadline_seconds: int


class FeedEnvironment(PlanningEnvironment):
    """The environment of the function `lambdas/handlers/feed.py`."""


class PrepareRunEnvironment(Environment):
    """The environment of the function `lambdas/handlers/prepare_run.py`."""

    state_table: str
    state_bucket: str
    asset_buckets: list[str] = Field(description="`bucket` or `bucket/prefix/`: what a run may list")
    pipeline_parameters: list[str] = Field(
        description="Names of the SSM parameters that hold a `DeployedPipeline` each"
    )


class CollectEnvironment(Environment):
    """The environment of the function `lambdas/handlers/collect.py`."""

    state_table: str
    state_bucket: str


class FinishRunEnvironment(Environment):
    """The environment of the function `lambdas/handlers/finish_run.py`."""

    state_table: str
    state_bucket: str
    callback_role_arn: str | None = Field(default=None, description="Answers tokens in VAMS's account, if not in ours")


class ReportEnvironment(Environment):
    """The environment of the function `lambdas/handlers/report.py`."""

    state_table: str
    callback_role_arn: str | None = Field(default=None, description="Answers tokens in VAMS's account, if not in ours")


class ScaleEnvironment(Environment):
    """The environment of the function `lambdas/handlers/scale.py`."""

    state_table: str
    state_bucket: str
    nudge_queue_url: str
    pipeline_parameters: list[str] = Field(
        description="Names of the SSM parameters that hold a `DeployedPipeline` each"
    )
    scaling: ScalingSettings


class DeadLetterEnvironment(Environment):
    """The environment of the function `lambdas/handlers/dead_letter.py`."""

    state_table: str


class CloseQueueEnvironment(Environment):
    """The environment of the function `lambdas/handlers/close_queue.py`."""

    state_table: str


class WorkerEnvironment(Environment):
    """The environment of a worker's container. Batch adds `AWS_BATCH_JOB_ID`."""

    aws_batch_job_id: str = Field(description="The worker's name")
    pipeline: str
    model: str
    model_revision: str = Field(default=MAIN, description="Commit, tag or branch, as it is configured")
    engine: str
    context: int | None = Field(default=None, ge=1, description="Tokens of a request; None: as many as the model takes")
    serving: Serving | None = Field(default=None, description="Of a generator")
    lossy: LossyModes = Field(
        default_factory=list, description="Of a reasoner: modes in which the engine is faster and changes the answers"
    )
    queue_url: str
    state_table: str
    state_bucket: str
    model_bucket: str
    model_store: str = Field(description="Path of the model cache")
    model_store_on: str | None = Field(
        default=None, pattern="^(efs|nvme)$", description="What must be mounted there; None: any folder will do"
    )
    scratch: str | None = Field(default=None, description="Folder on the host's NVMe; the system's own by default")
    image_cuda: str | None = Field(
        default=None, pattern="^(cu130|cu128)$", description="Set by the image: what the host's driver must run"
    )
    mount_table: str = Field(default="/proc/self/mountinfo", description="Where the kernel says what is mounted")
    endpoint: Endpoint | None = Field(default=None, description="Whose model answers, if it is somebody else's server")
    upsampler: Endpoint | None = Field(default=None, description="Whose model writes prompts, if one does")
    hf_token_secret: str | None = Field(default=None, description="ARN; read only when a model must be downloaded")
    configuration: str | None = Field(
        default=None, description="Digest of `Identity`: it takes no job that was planned with another configuration"
    )
    worker: WorkerSettings
