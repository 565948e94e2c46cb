"""Computes what a generation and an item of a run cost, by the dated prices of the catalogue."""

from typing import NamedTuple

from cosmos_batch.catalogue.hardware import INSTANCE_TYPES
from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.engines.gpus import gpus_here
from cosmos_batch.state import ItemFacts
from cosmos_batch.worker.instance_metadata import instance_type


class GenerationCost(NamedTuple):
    """The GPUs and the price of a generation.

    A value is None where it is unknown (an engine that shares its GPUs by itself, a price outside of EC2) or does not
    apply (GPU-seconds without a GPU).
    """

    gpus: int | None
    gpu_seconds: float | None
    instance_type: str | None
    dollars: float | None


def cost_of(environment: WorkerEnvironment, seconds: float) -> GenerationCost:
    """Return what it costs to use this worker's GPUs for `seconds`."""
    planned = environment.serving is not None and environment.serving.plans
    gpus = gpus_here() if planned else 0
    host = instance_type()
    if not gpus:
        return GenerationCost(None, None, host, None)
    gpu_seconds = round(seconds * gpus, 3)
    row = INSTANCE_TYPES.get(host or "")
    return GenerationCost(gpus, gpu_seconds, host, round(gpu_seconds * row.dollars_per_gpu_second, 6) if row else None)


def facts_of(seconds: float, revision: str | None) -> ItemFacts:
    """Return the cost of an attempt, with the commit of the model that the engine held.

    `seconds` is the attempt's share of the engine's time. A remote server, or a host without a price, costs 0.
    """
    gpu_seconds = seconds * gpus_here()
    row = INSTANCE_TYPES.get(instance_type() or "")
    dollars = gpu_seconds * row.dollars_per_gpu_second if row else 0.0
    return ItemFacts(round(gpu_seconds, 6), round(dollars, 9), revision)
