"""Check whether workers can run: whether the model fits into their GPUs, and how the last ones ended."""

from collections.abc import Iterator

from cosmos_batch.catalogue.hardware import INSTANCE_TYPES
from cosmos_batch.catalogue.pipelines import pipeline_named
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.doctor.findings import Finding, Verdict
from cosmos_batch.cli.runs.wording import duration_in_words, moment_in_words
from cosmos_batch.contract.environment import DeployedPipeline
from cosmos_batch.planning.instance_types import types_for, why_not
from cosmos_batch.state import Shortage

MEMORY, CAPACITY = "memory", "capacity"


def check_memory(deployed: DeployedPipeline) -> Iterator[Finding]:
    """Yield whether the pipeline's model fits into the GPUs of each configured instance type."""
    pipeline, name = pipeline_named(deployed.queue.id), f"{MEMORY} of {deployed.queue.id}"
    types = [one for one in deployed.compute.instance_types if one in INSTANCE_TYPES]
    if pipeline is None or not types:
        return
    reasons = [reason for one in types if (reason := why_not(pipeline, one)) is not None]
    for reason in reasons:
        remedy = f"Set instanceTypes of {pipeline.config_key} to some of {', '.join(types_for(pipeline))}, and deploy."
        yield Finding(check=name, verdict=Verdict.PROBLEM, message=f"{reason}.", remedy=remedy)
    if not reasons:
        message = f"{pipeline.model_size} fits into the GPUs of {', '.join(types)}."
        yield Finding(check=name, verdict=Verdict.OK, message=message)


def check_capacity(deployment: Deployment, deployed: DeployedPipeline) -> Iterator[Finding]:
    """Yield what the table knows of the pipeline's workers: its breaker, and when AWS had no instance for them."""
    pipeline, name = deployed.queue.id, f"{CAPACITY} of {deployed.queue.id}"
    workers = deployment.workers(pipeline)
    row = workers.pipeline()
    if row.open and row.reason is not None:
        message = f"Its workers cannot start: {row.reason.message}"
        verdict = Verdict.WARNING if row.reason.retryable else Verdict.PROBLEM
        yield Finding(check=name, verdict=verdict, message=message, remedy=row.reason.remedy)
    elif row.no_capacity_since is not None:
        yield Finding(
            check=name,
            verdict=Verdict.WARNING,
            message=f"AWS has had no instance for its workers since {row.no_capacity_since}. A run waits for one.",
            remedy="Add instance types or Availability Zones, or wait.",
        )
    elif shortages := workers.shortages.list():
        yield Finding(
            check=name,
            verdict=Verdict.WARNING,
            message=f"{_in_words(shortages)} A run waits for an instance.",
            remedy="Add instance types or Availability Zones, or allow for the wait.",
        )
    else:
        yield Finding(check=name, verdict=Verdict.OK, message="Nothing kept its last workers from starting.")


def _in_words(shortages: list[Shortage]) -> str:
    """Return the longest and the last shortage, such as `AWS had no g6e.2xlarge for 40 min until 2026-11-22 14:05`."""
    longest, last = max(shortages, key=lambda one: one.seconds), shortages[-1]
    types = " or ".join(last.instance_types) or "instance"
    duration = duration_in_words(last.seconds)
    text = f"AWS had no {types} for its workers for {duration}, until {moment_in_words(last.until)}."
    if len(shortages) == 1:
        return text
    return (
        f"{text} That was one of {len(shortages)} times in 30 days, at most {duration_in_words(longest.seconds)} each."
    )


def check_offerings(deployment: Deployment, deployed: DeployedPipeline) -> Iterator[Finding]:
    """Yield whether the region has each of the pipeline's instance types."""
    name, types = f"instances of {deployed.queue.id}", deployed.compute.instance_types
    if not types:
        return
    pages = deployment.clients("ec2").get_paginator("describe_instance_type_offerings")
    answers = pages.paginate(LocationType="region", Filters=[{"Name": "instance-type", "Values": types}])
    offered = {each["InstanceType"] for page in answers for each in page["InstanceTypeOfferings"]}
    missing = [one for one in types if one not in offered]
    if not missing:
        yield Finding(check=name, verdict=Verdict.OK, message=f"The region has {', '.join(types)}.")
        return
    verdict = Verdict.PROBLEM if len(missing) == len(types) else Verdict.WARNING
    message = f"The region has no {' or '.join(missing)}."
    yield Finding(check=name, verdict=verdict, message=message, remedy="Take other instanceTypes, or another region.")
