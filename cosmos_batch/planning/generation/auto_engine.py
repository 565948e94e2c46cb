"""Choose the engine that a generator runs on if its configuration leaves the choice to the project."""

from collections.abc import Sequence

from cosmos_batch.catalogue.engines import DEFAULT_GENERATOR, GENERATOR_ABILITIES, names_for
from cosmos_batch.catalogue.generation import LossyMode
from cosmos_batch.catalogue.hardware import INSTANCE_TYPES
from cosmos_batch.catalogue.pipelines import Pipeline
from cosmos_batch.contract.entries import Objective
from cosmos_batch.contract.generation.serving import ParallelPlan
from cosmos_batch.planning.generation.abilities import distilled_obstacle
from cosmos_batch.planning.generation.memory import Host, Workload
from cosmos_batch.planning.generation.parallelism import why_not_parallel_plan

_ONE_GPU = ParallelPlan()


def auto_engine(
    pipeline: Pipeline,
    model: str,
    instance_types: Sequence[str],
    workload: Workload,
    objective: Objective = "throughput",
    lossy: Sequence[LossyMode] = (),
) -> str:
    """Return the engine that `auto` stands for, for a generator that runs this model on these instance types.

    One container image serves all types of a pipeline, so that they have the same engine. It is the one that was
    measured to make videos the fastest on all of their GPUs, if it can do what the pipeline is configured for and one
    GPU is enough for the largest workload. Otherwise it is `DEFAULT_GENERATOR`, which can share a job among GPUs. It is
    also used for latency on instances with several GPUs, which a job gets all of, and for a pipeline that makes images
    alone. Only Nano was measured, and what holds for it is taken to hold for the other models.
    """
    several_gpus = any(INSTANCE_TYPES[name].gpus > 1 for name in instance_types)
    if set(pipeline.modes) == {"t2i"} or (objective == "latency" and several_gpus):
        return DEFAULT_GENERATOR
    gpus = {INSTANCE_TYPES[name].gpu for name in instance_types}
    for engine in names_for("generator"):
        if (
            gpus.issubset(GENERATOR_ABILITIES[engine].fastest_on)
            and _is_able(engine, pipeline, model, workload, lossy)
            and _runs_on_one_gpu(engine, pipeline, instance_types, workload)
        ):
            return engine
    return DEFAULT_GENERATOR


def _is_able(engine: str, pipeline: Pipeline, model: str, workload: Workload, lossy: Sequence[LossyMode]) -> bool:
    """Return whether an engine runs the model, in each mode of the pipeline, with its guardrails and lossy modes."""
    abilities = GENERATOR_ABILITIES[engine]
    return (
        distilled_obstacle(model, engine) is None
        and set(pipeline.modes).issubset(abilities.modes)
        and (abilities.guardrails or not workload.guardrails)
        and set(lossy).issubset(abilities.lossy)
    )


def _runs_on_one_gpu(engine: str, pipeline: Pipeline, instance_types: Sequence[str], workload: Workload) -> bool:
    """Return whether one GPU of each of these types holds the workload, without layers in the host's memory."""
    hosts = [Host.of_type(name) for name in instance_types]
    return not any(why_not_parallel_plan(_ONE_GPU, pipeline, engine, host, workload) for host in hosts)
