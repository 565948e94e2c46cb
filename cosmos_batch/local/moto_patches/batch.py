"""Batch.

AWS: a job runs its image; it waits while the compute environment is full; it has volumes, secrets, an exit code, a
reason, and an event for each change of state; ListJobs without a status lists what is RUNNING.

moto: wants Docker; moves a job on by half-second polls; has neither volumes of EFS, nor secrets, nor events; SIGKILLs;
lists every state; CloudFormation can make a compute environment only with a service role and a type in upper case,
loses the timeout of a job definition, and can change or delete nothing.

Mend: jobs are ``jobs.BatchJob``; compute environments start no instances.
"""
# ruff: noqa: ARG001 -- the signatures are moto's.

from __future__ import annotations

from typing import Any

from moto.batch import models
from moto.batch.models import BatchBackend, ComputeEnvironment, JobDefinition, JobQueue
from moto.batch.utils import lowercase_first_key

from cosmos_batch.local import backends
from cosmos_batch.local.batch.capacity import CAPACITY
from cosmos_batch.local.batch.jobs import BatchJob
from cosmos_batch.local.runtime import ACCOUNT, REGION

SERVICE_LINKED_ROLE = f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/batch.amazonaws.com/AWSServiceRoleForBatch"


def apply() -> None:
    """Install the mend."""
    models.Job = BatchJob
    _list_running_by_default()
    _look_again_after_an_update()
    _attribute_names(ComputeEnvironment, {"ComputeEnvironmentArn": "arn"})
    _attribute_names(JobQueue, {"JobQueueArn": "arn"})
    _attribute_names(JobDefinition, {"JobDefinitionArn": "arn"})
    ComputeEnvironment.create_from_cloudformation_json = classmethod(_create_environment)
    ComputeEnvironment.update_from_cloudformation_json = classmethod(_update_environment)
    ComputeEnvironment.delete = lambda self, *_: backends.batch()._compute_environments.pop(self.arn, None)
    JobQueue.update_from_cloudformation_json = classmethod(_update_queue)
    JobQueue.delete = lambda self, *_: backends.batch()._job_queues.pop(self.arn, None)
    _fill_in_definition()
    JobDefinition.update_from_cloudformation_json = classmethod(_register_next_revision)
    JobDefinition.delete = lambda self, *_: self.deregister()


def _list_running_by_default() -> None:
    original = BatchBackend.list_jobs

    def list_jobs(
        self: BatchBackend, job_queue_name: str, array_job_id: str, job_status: str | None = None, filters: Any = None
    ) -> list[models.Job]:
        status = job_status or (None if filters else "RUNNING")
        return original(self, job_queue_name, array_job_id, status, filters)

    BatchBackend.list_jobs = list_jobs


def _look_again_after_an_update() -> None:
    """UpdateComputeEnvironment may make room: jobs that wait look again."""
    original = BatchBackend.update_compute_environment

    def update_compute_environment(self: BatchBackend, *args: Any, **kwargs: Any) -> tuple[str, str]:
        updated: tuple[str, str] = original(self, *args, **kwargs)
        CAPACITY.wake()
        return updated

    BatchBackend.update_compute_environment = update_compute_environment


def _attribute_names(cls: Any, names: dict[str, str]) -> None:
    cls.has_cfn_attr = classmethod(lambda _, name: name in names)
    cls.get_cfn_attribute = lambda self, name: getattr(self, names[name])


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


def _fill_in_definition() -> None:
    original = JobDefinition.create_from_cloudformation_json.__func__

    def create(
        cls: type[JobDefinition], resource_name: str, cloudformation_json: Any, *args: Any, **kwargs: Any
    ) -> Any:
        properties = cloudformation_json["Properties"]
        properties.setdefault("RetryStrategy", {})
        properties["timeout"] = properties.get("Timeout", {})
        return original(cls, resource_name, cloudformation_json, *args, **kwargs)

    JobDefinition.create_from_cloudformation_json = classmethod(create)


def _register_next_revision(
    cls: type[JobDefinition],
    original_resource: JobDefinition,
    new_resource_name: str,
    cloudformation_json: Any,
    account_id: str,
    region_name: str,
) -> JobDefinition:
    """A changed definition is a new revision under the same name. AWS deregisters the revision before, unless the
    template says that it shall stay."""
    revision = cls.create_from_cloudformation_json(original_resource.name, cloudformation_json, account_id, region_name)
    policy = cloudformation_json["Properties"].get("ResourceRetentionPolicy", {})
    if str(policy.get("SkipDeregisterOnUpdate", False)).lower() != "true":
        original_resource.deregister()
    return revision
