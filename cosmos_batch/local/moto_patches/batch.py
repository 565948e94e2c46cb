"""Patches of moto's Batch: jobs run as processes, and a template's environments, queues and definitions work."""
# ruff: noqa: ARG001 -- the signatures are moto's.

from __future__ import annotations

from typing import Any

from moto.batch import models
from moto.batch.models import BatchBackend, ComputeEnvironment, JobDefinition, JobQueue
from moto.batch.utils import lowercase_first_key

from cosmos_batch.local import backends
from cosmos_batch.local.batch.capacity import CAPACITY
from cosmos_batch.local.batch.jobs import BatchJob
from cosmos_batch.local.moto_patches.registry import RESOURCE_PAGES, patch, replace
from cosmos_batch.local.moto_patches.resources import expose_attributes
from cosmos_batch.local.runtime import ACCOUNT, REGION

SERVICE_LINKED_ROLE = f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/batch.amazonaws.com/AWSServiceRoleForBatch"

_API = "https://docs.aws.amazon.com/batch/latest/APIReference/"


@patch(
    "batch.jobs-run-as-processes",
    brings="A job runs its image, waits for vCPUs, has volumes, secrets, an exit code and a reason, is stopped by "
    "SIGTERM first, and each change of its state is an event.",
    moto="Requires Docker, polls each half second, has neither volumes of EFS nor secrets nor events, and sends "
    "SIGKILL.",
    source="https://docs.aws.amazon.com/batch/latest/userguide/job_states.html",
)
def _run_jobs() -> None:
    replace(models, "Job", BatchJob)


@patch(
    "batch.lists-running-jobs-by-default",
    brings="ListJobs without a status lists the jobs that are RUNNING.",
    moto="Lists jobs in every state.",
    source=f"{_API}API_ListJobs.html",
)
def _list_running_by_default() -> None:
    original = BatchBackend.list_jobs

    def list_jobs(
        self: BatchBackend, job_queue_name: str, array_job_id: str, job_status: str | None = None, filters: Any = None
    ) -> list[models.Job]:
        status = job_status or (None if filters else "RUNNING")
        return original(self, job_queue_name, array_job_id, status, filters)

    replace(BatchBackend, "list_jobs", list_jobs)


@patch(
    "batch.updates-start-waiting-jobs",
    brings="Jobs that wait start when UpdateComputeEnvironment makes room.",
    moto="Has no capacity.",
    source=f"{_API}API_UpdateComputeEnvironment.html",
)
def _look_again_after_an_update() -> None:
    original = BatchBackend.update_compute_environment

    def update_compute_environment(self: BatchBackend, *args: Any, **kwargs: Any) -> tuple[str, str]:
        updated: tuple[str, str] = original(self, *args, **kwargs)
        CAPACITY.wake()
        return updated

    replace(BatchBackend, "update_compute_environment", update_compute_environment)


@patch(
    "batch.arns-of-resources",
    brings="Fn::GetAtt reads the ARN of a compute environment, a queue and a job definition.",
    moto="Does not know the attributes.",
    source=f"{RESOURCE_PAGES}aws-resource-batch-jobqueue.html",
)
def _expose_arns() -> None:
    expose_attributes(ComputeEnvironment, {"ComputeEnvironmentArn": "arn"})
    expose_attributes(JobQueue, {"JobQueueArn": "arn"})
    expose_attributes(JobDefinition, {"JobDefinitionArn": "arn"})


@patch(
    "batch.compute-environments-of-templates",
    brings="A template makes a compute environment without a service role and with a type in any case, changes it, and "
    "deletes it. The local cloud starts no instances for it.",
    moto="Requires a service role and upper case, starts instances, and can neither change nor delete it.",
    source=f"{RESOURCE_PAGES}aws-resource-batch-computeenvironment.html",
)
def _make_compute_environments() -> None:
    replace(ComputeEnvironment, "create_from_cloudformation_json", classmethod(_create_environment))
    replace(ComputeEnvironment, "update_from_cloudformation_json", classmethod(_update_environment))
    replace(ComputeEnvironment, "delete", lambda self, *_: backends.batch()._compute_environments.pop(self.arn, None))


def _create_environment(
    cls: type[ComputeEnvironment], resource_name: str, cloudformation_json: Any, *_: Any, **__: Any
) -> ComputeEnvironment:
    properties = cloudformation_json["Properties"]
    environment = cls(
        resource_name,
        properties["Type"].upper(),
        properties.get("State", "ENABLED"),
        lowercase_first_key(properties["ComputeResources"]),
        properties.get("ServiceRole", SERVICE_LINKED_ROLE),
        account_id=ACCOUNT,
        region_name=REGION,
    )
    backends.batch()._compute_environments[environment.arn] = environment
    return environment


def _update_environment(
    cls: type[ComputeEnvironment],
    original_resource: ComputeEnvironment,
    new_resource_name: str,
    cloudformation_json: Any,
    *_: Any,
    **__: Any,
) -> ComputeEnvironment:
    properties = cloudformation_json["Properties"]
    original_resource.state = properties.get("State", "ENABLED")
    original_resource.compute_resources = lowercase_first_key(properties["ComputeResources"])
    CAPACITY.wake()
    return original_resource


@patch(
    "batch.queues-of-templates",
    brings="A template changes and deletes a job queue.",
    moto="Can do neither.",
    source=f"{RESOURCE_PAGES}aws-resource-batch-jobqueue.html",
)
def _change_queues() -> None:
    replace(JobQueue, "update_from_cloudformation_json", classmethod(_update_queue))
    replace(JobQueue, "delete", lambda self, *_: backends.batch()._job_queues.pop(self.arn, None))


def _update_queue(
    cls: type[JobQueue],
    original_resource: JobQueue,
    new_resource_name: str,
    cloudformation_json: Any,
    *_: Any,
    **__: Any,
) -> JobQueue:
    properties = cloudformation_json["Properties"]
    order = [lowercase_first_key(entry) for entry in properties["ComputeEnvironmentOrder"]]
    backends.batch().update_job_queue(
        original_resource.arn, properties["Priority"], properties.get("State", "ENABLED"), order, None
    )
    CAPACITY.wake()
    return original_resource


@patch(
    "batch.timeouts-of-templates",
    brings="The timeout of a job definition in a template is kept; RetryStrategy may be missing.",
    moto="Loses the timeout.",
    source=f"{RESOURCE_PAGES}aws-resource-batch-jobdefinition.html",
)
def _keep_timeouts() -> None:
    original = JobDefinition.create_from_cloudformation_json.__func__

    def create(
        cls: type[JobDefinition], resource_name: str, cloudformation_json: Any, *args: Any, **kwargs: Any
    ) -> Any:
        properties = cloudformation_json["Properties"]
        properties.setdefault("RetryStrategy", {})
        properties["timeout"] = properties.get("Timeout", {})
        return original(cls, resource_name, cloudformation_json, *args, **kwargs)

    replace(JobDefinition, "create_from_cloudformation_json", classmethod(create))


@patch(
    "batch.definitions-have-revisions",
    brings="A changed job definition is a new revision under the same name. The one before is deregistered, unless "
    "SkipDeregisterOnUpdate is true; a deleted one is deregistered.",
    moto="Can neither change nor delete a job definition.",
    source=f"{RESOURCE_PAGES}aws-properties-batch-jobdefinition-resourceretentionpolicy.html",
)
def _revise_definitions() -> None:
    replace(JobDefinition, "update_from_cloudformation_json", classmethod(_register_next_revision))
    replace(JobDefinition, "delete", lambda self, *_: self.deregister())


def _register_next_revision(
    cls: type[JobDefinition],
    original_resource: JobDefinition,
    new_resource_name: str,
    cloudformation_json: Any,
    account_id: str,
    region_name: str,
) -> JobDefinition:
    revision = cls.create_from_cloudformation_json(original_resource.name, cloudformation_json, account_id, region_name)
    policy = cloudformation_json["Properties"].get("ResourceRetentionPolicy", {})
    if str(policy.get("SkipDeregisterOnUpdate", False)).lower() != "true":
        original_resource.deregister()
    return revision
