"""Which workers fit which instance types: refused at synthesis, not after ten minutes of waiting for a GPU."""

from collections.abc import Sequence
from dataclasses import dataclass

from cosmos_batch.catalogue.hardware import INSTANCE_TYPES, USABLE_MEMORY
from cosmos_batch.catalogue.pipelines import Pipeline


@dataclass(frozen=True)
class WorkerResources:
    """What one worker (Batch job) asks for: it must fit every listed type, so it is the least of them per GPU."""

    gpus: int
    vcpus: int
    memory_mib: int


def worker_resources(pipeline: Pipeline, instance_types: Sequence[str]) -> WorkerResources:
    """The share of one worker when an instance is filled with workers of `pipeline.gpus_per_worker` GPUs each."""
    types = [INSTANCE_TYPES[name] for name in instance_types]
    gpus = pipeline.gpus_per_worker
    return WorkerResources(
        gpus=gpus,
        vcpus=min(one.vcpus * gpus // one.gpus for one in types),
        memory_mib=min(int(one.memory_gib * 1024 * USABLE_MEMORY) * gpus // one.gpus for one in types),
    )


def why_not(pipeline: Pipeline, instance_type: str) -> str | None:
    """Why no worker of the pipeline runs on an instance type, as the end of a sentence; None if it does."""
    instance = INSTANCE_TYPES[instance_type]
    needed = f"{pipeline.model_size} needs {pipeline.gpus_per_worker} x {pipeline.min_gpu_memory_gb} GB"
    if instance.gpu_memory_gb < pipeline.min_gpu_memory_gb:
        return f"{instance_type} has {instance.gpu_memory_gb} GB per GPU, {needed}"
    if instance.gpus < pipeline.gpus_per_worker:
        return f"{instance_type} has {instance.gpus} GPU, {needed}"
    # One such GPU does several clips a second; a generation takes minutes, and eight workers fill the instance.
    one_reasoner = pipeline.surface == "reasoner" and pipeline.gpus_per_worker == 1
    if one_reasoner and instance.gpu in ("H100", "H200") and instance.gpus > 1:
        return f"{instance_type} rents {instance.gpus} {instance.gpu} for reasoners of one GPU; take p5.4xlarge"
    return None


def why_not_together(pipeline: Pipeline, instance_types: Sequence[str]) -> str | None:
    """Why no one job definition serves all of the types; None if it does. Each of them carries the model."""
    memory_gib = worker_resources(pipeline, instance_types).memory_mib // 1024
    if memory_gib >= pipeline.min_memory_gib:
        return None
    smallest = min(instance_types, key=lambda name: worker_resources(pipeline, [name]).memory_mib)
    return (
        f"one job definition for all of them leaves a worker {memory_gib} GiB of memory, its share of a {smallest}; "
        f"{pipeline.model_size} needs {pipeline.min_memory_gib} GiB"
    )


def types_for(pipeline: Pipeline) -> list[str]:
    """The instance types that carry a worker of the pipeline."""
    return [
        name
        for name in INSTANCE_TYPES
        if why_not(pipeline, name) is None and why_not_together(pipeline, [name]) is None
    ]


def workers_per_instance(pipeline: Pipeline, instance_type: str) -> int:
    """How many workers fill the GPUs of an instance."""
    return INSTANCE_TYPES[instance_type].gpus // pipeline.gpus_per_worker
