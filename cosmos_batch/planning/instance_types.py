"""Decide which instance types can run the workers of a pipeline, and what each worker reserves.

Synthesis refuses types that do not fit; AWS Batch would leave a job waiting for a GPU without a message.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cosmos_batch.catalogue.hardware import GPUS, INSTANCE_TYPES, USABLE_MEMORY
from cosmos_batch.catalogue.pipelines import Pipeline


@dataclass(frozen=True)
class WorkerResources:
    """The GPUs, vCPUs and memory that the job definition of a worker reserves."""

    gpus: int
    vcpus: int
    memory_mib: int


def worker_resources(pipeline: Pipeline, instance_types: Sequence[str]) -> WorkerResources:
    """Return the vCPUs, memory and GPUs that one worker reserves, if workers are to use all GPUs of an instance.

    One job definition serves all of the types, so each number is the smallest share among them.
    """
    types = [INSTANCE_TYPES[name] for name in instance_types]
    gpus = pipeline.gpus_per_worker
    return WorkerResources(
        gpus=gpus,
        vcpus=min(host.vcpus * gpus // host.gpus for host in types),
        memory_mib=min(int(host.memory_gib * 1024 * USABLE_MEMORY) * gpus // host.gpus for host in types),
    )


def why_not(pipeline: Pipeline, instance_type: str) -> str | None:
    """Return why no worker of the pipeline can run on an instance type, as a clause; None if one can."""
    instance = INSTANCE_TYPES[instance_type]
    needed = f"{pipeline.model_size} needs {pipeline.gpus_per_worker} x {pipeline.min_gpu_memory_gb} GB"
    if instance.gpu_memory_gb < pipeline.min_gpu_memory_gb:
        return f"{instance_type} has {instance.gpu_memory_gb} GB per GPU, {needed}"
    if instance.gpus < pipeline.gpus_per_worker:
        return f"{instance_type} has {instance.gpus} GPU, {needed}"
    # A reasoner on one such GPU answers several clips a second, and never uses the NVLink between them. A generation
    # takes minutes, so that workers fill such an instance.
    single_gpu_reasoner = pipeline.surface == "reasoner" and pipeline.gpus_per_worker == 1
    if single_gpu_reasoner and GPUS[instance.gpu].nvlink and instance.gpus > 1:
        smaller = next(name for name, other in INSTANCE_TYPES.items() if GPUS[other.gpu].nvlink and other.gpus == 1)
        gpus = f"{instance.gpus} {instance.gpu}"
        return f"{instance_type} has {gpus}, of which a reasoner's worker uses one; use {smaller}"
    return None


def why_not_together(pipeline: Pipeline, instance_types: Sequence[str]) -> str | None:
    """Return why one job definition cannot serve all of these types, each of which fits alone; None if it can."""
    memory_gib = worker_resources(pipeline, instance_types).memory_mib // 1024
    if memory_gib >= pipeline.min_memory_gib:
        return None
    smallest = min(instance_types, key=lambda name: worker_resources(pipeline, [name]).memory_mib)
    return (
        f"one job definition for all of them leaves a worker {memory_gib} GiB of memory, its share of a {smallest}; "
        f"{pipeline.model_size} needs {pipeline.min_memory_gib} GiB"
    )


def types_for(pipeline: Pipeline) -> list[str]:
    """Return the instance types on which a worker of the pipeline can run."""
    return [
        name
        for name in INSTANCE_TYPES
        if why_not(pipeline, name) is None and why_not_together(pipeline, [name]) is None
    ]


def workers_per_instance(pipeline: Pipeline, instance_type: str) -> int:
    """Return how many workers fill the GPUs of an instance."""
    return INSTANCE_TYPES[instance_type].gpus // pipeline.gpus_per_worker
