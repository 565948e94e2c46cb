"""Decides how the GPUs of this worker's machine share a generation (decision 040)."""

import os

from cosmos_batch.catalogue.hardware import USABLE_MEMORY, gpu_kind
from cosmos_batch.catalogue.pipelines import Pipeline, pipeline_named
from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.serving import ParallelPlan, Serving
from cosmos_batch.engines.gpus import LocalGpu, gpu_here, gpus_here
from cosmos_batch.engines.protocol import Engine, ParallelEngine
from cosmos_batch.planning.generation.memory import Host, Workload
from cosmos_batch.planning.generation.parallelism import parallel_plan_for_machine


def allocate_gpus(environment: WorkerEnvironment, engine: Engine) -> None:
    """Tell an engine that can use several GPUs how they share a job.

    Raises Failure (EngineFailed) where no plan fits the machine.
    """
    serving = environment.serving
    if serving is None or not serving.plans or not isinstance(engine, ParallelEngine):
        return
    pipeline = pipeline_named(environment.pipeline)
    assert pipeline is not None, "infra deploys the pipelines of the catalogue"
    engine.plan = plan_for_this_machine(serving, pipeline)


def plan_for_this_machine(serving: Serving, pipeline: Pipeline) -> ParallelPlan:
    """Return the deployed plan for this machine's kind of GPU.

    A local worker may have another kind, for which the plan is computed here. Without a GPU the plan is empty.

    Raises Failure (EngineFailed) where the plan uses another number of GPUs than there are, or their kind is unknown.
    """
    count = gpus_here()
    if not count:
        return ParallelPlan()
    gpu = gpu_here()
    if gpu is None:
        raise Failure(
            "EngineFailed",
            f"This worker has {count} GPUs, and nvidia-smi does not name them.",
            "See that nvidia-smi runs here and names them; a container needs the driver's capability 'utility'.",
            retryable=True,
        )
    kind = gpu_kind(gpu.name)
    if kind is None or kind not in serving.plans:
        return _plan_for_other_gpu(serving, pipeline, count, gpu)
    plan = serving.plans[kind]
    if plan.gpus != count:
        raise Failure(
            "EngineFailed",
            f"The plan of {pipeline.id} for {kind} ({plan}) uses {plan.gpus} GPUs, and this worker has {count}.",
            f"Give each worker {plan.gpus}, as the deployed job definition does; on a machine with fewer, set "
            f"{pipeline.config_key}.maxResolution to a smaller one, or its instanceTypes to one with as many.",
        )
    return plan


def _plan_for_other_gpu(serving: Serving, pipeline: Pipeline, count: int, gpu: LocalGpu) -> ParallelPlan:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    host = Host(gpu.name, count, gpu.gib, memory * USABLE_MEMORY)
    workload = Workload.largest(
        pipeline.modes, serving.max_resolution, serving.guardrails, serving.fixed_steps is not None
    )
    try:
        return parallel_plan_for_machine(pipeline, serving.engine, host, workload)
    except ValueError as error:
        raise Failure(
            "EngineFailed",
            f"{pipeline.id} cannot share {count} x {gpu.name}: {error}.",
            "Name as many GPUs as it can share in CUDA_VISIBLE_DEVICES.",
        ) from error
