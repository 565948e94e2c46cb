"""Estimate what an item costs on each instance type, for the choice of types before anything has been measured there.

Two kinds of traffic are told apart. If all GPUs have work, an item costs the time of the GPUs that it uses. If one item
comes an hour, it pays for a whole instance from its start to its end, however many GPUs that has.

Seconds are those of `pace`: measured on an H100, and for other GPUs times a ratio.
"""

from contextlib import suppress
from typing import NamedTuple

from cosmos_batch.catalogue.hardware import INSTANCE_TYPES
from cosmos_batch.catalogue.pipelines import Pipeline
from cosmos_batch.planning.generation.auto_engine import auto_engine
from cosmos_batch.planning.generation.memory import Host, Workload
from cosmos_batch.planning.generation.parallelism import choose_parallel_plan, with_parallel_plans
from cosmos_batch.planning.instance_types import why_not, why_not_together
from cosmos_batch.planning.pace import first_seconds_per_unit

# An estimate for an instance that starts for one item: host, image, model, `worker.idleSeconds` and shut-down.
IDLE_SECONDS_OF_ONE_ITEM = 15 * 60


class ItemCost(NamedTuple):
    """The cost of one item on an instance type.

    Attributes
    ----------
    seconds
        How long a fully loaded worker takes for it.
    busy_dollars
        Its share if all GPUs of the instance have work.
    sparse_dollars
        Its price if it is alone, such as one item an hour.
    """

    seconds: float
    busy_dollars: float
    sparse_dollars: float


def item_cost(pipeline: Pipeline, instance_type: str, weight: float = 1.0) -> ItemCost | None:
    """Return the cost of an item with a weight; None if no worker of the pipeline fits the type without offloading.

    A weight of 1 is a clip of a reasoner; for generations see `pace.weight_of_generation`.
    """
    planned = _planned(pipeline, instance_type)
    if planned is None:
        return None
    instance, gpus = INSTANCE_TYPES[instance_type], planned.gpus_per_worker
    seconds = first_seconds_per_unit(pipeline.id, instance.gpu, gpus) * weight
    busy = seconds * gpus * instance.dollars_per_gpu_second
    sparse = (IDLE_SECONDS_OF_ONE_ITEM + seconds) / 3600 * instance.dollars_per_hour
    return ItemCost(seconds, busy, sparse)


def _planned(pipeline: Pipeline, instance_type: str) -> Pipeline | None:
    """Return the pipeline with the GPUs that a worker takes on a type, with the engine that `auto` is there.

    None if no plan fits.
    """
    planned: Pipeline | None = pipeline
    if pipeline.surface == "generator":
        planned = None
        workload = Workload.largest(pipeline.modes, "720p", guardrails=True)
        with suppress(ValueError):
            host = Host.of_type(instance_type)
            engine = auto_engine(pipeline, pipeline.model, [instance_type], workload)
            plan = choose_parallel_plan(pipeline, engine, [host], workload, "throughput")
            if not plan.offload:
                plans = {INSTANCE_TYPES[instance_type].gpu: plan}
                planned = with_parallel_plans(pipeline, engine, plans, workload)
    if planned is None or why_not(planned, instance_type) or why_not_together(planned, [instance_type]):
        return None
    return planned
