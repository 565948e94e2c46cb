"""What a generation cost, by the catalogue's dated prices."""

from typing import NamedTuple

from cosmos_batch.catalogue.hardware import INSTANCE_TYPES
from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.engines.gpus import gpus_here
from cosmos_batch.worker.instance_metadata import instance_type


class Cost(NamedTuple):
    """None is what is not known: GPUs of an engine that plans for itself, a price outside of EC2; and what is not: a
    machine without GPUs has spent no GPU-seconds."""

    gpus: int | None
    gpu_seconds: float | None
    instance_type: str | None
    dollars: float | None


def cost_of(environment: WorkerEnvironment, seconds: float) -> Cost:
    """Of a worker's GPUs for so many seconds."""
    planned = environment.serving is not None and environment.serving.plans
    gpus = gpus_here() if planned else 0
    host = instance_type()
    if not gpus:
        return Cost(None, None, host, None)
    gpu_seconds = round(seconds * gpus, 3)
    known = INSTANCE_TYPES.get(host or "")
    return Cost(gpus, gpu_seconds, host, round(gpu_seconds * known.dollars_per_gpu_second, 6) if known else None)
