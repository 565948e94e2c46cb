"""Plan how the GPUs of a worker share one generation, and how many GPUs a worker reserves (decision 040).

A parallel plan belongs to a worker, which loads its model once, so it must carry the largest job that its pipeline
admits, by the arithmetic of `memory`. Sharing costs GPU time: vLLM-Omni takes 202, 63 and 38 s for Nano at 720p on 1, 4
and 8 H100, which are 202, 251 and 302 GPU-seconds.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product

from cosmos_batch.catalogue.engines import GENERATOR_ABILITIES
from cosmos_batch.catalogue.generation import LossyMode
from cosmos_batch.catalogue.generator_abilities import GeneratorAbilities
from cosmos_batch.catalogue.hardware import GPUS, HOPPER, INSTANCE_TYPES
from cosmos_batch.catalogue.pipelines import Pipeline
from cosmos_batch.contract.entries import Objective
from cosmos_batch.contract.generation.serving import ParallelPlan, ParallelPlans
from cosmos_batch.planning.generation.memory import Host, Workload, gib_per_gpu, offloaded_gib, usable_gib
from cosmos_batch.planning.instance_types import why_not, why_not_together

DEGREES = (1, 2, 4, 8)
KV_HEADS = 8  # the key-value heads of Nano and Super; tensor and Ulysses parallelism divide them


def choose_parallel_plans(
    pipeline: Pipeline, engine: str, instance_types: Sequence[str], workload: Workload, objective: Objective
) -> ParallelPlans:
    """Return the parallel plan for each GPU model among these instance types.

    A worker reserves the same number of GPUs on all of them, the best number for the first type; the plans differ in
    how they use these GPUs. Raises ValueError if there is none, with the reason and with types that have one.
    """
    hosts_of_gpu: dict[str, list[Host]] = {}
    for name in instance_types:
        hosts_of_gpu.setdefault(INSTANCE_TYPES[name].gpu, []).append(Host.of_type(name))

    def plans_with(gpus: int | None) -> ParallelPlans:
        return {
            gpu: choose_parallel_plan(pipeline, engine, hosts, workload, objective, gpus)
            for gpu, hosts in hosts_of_gpu.items()
        }

    try:
        best = plans_with(None)
    except ValueError as error:
        raise ValueError(f"{error}; {types_that_carry(pipeline, engine, workload)}") from error
    candidates = []
    for gpus in DEGREES:
        with suppress(ValueError):
            candidates.append(plans_with(gpus))
    if not candidates:
        plans_in_words = ", ".join(
            f"{plan} on {' and '.join(host.name for host in hosts_of_gpu[gpu])}" for gpu, plan in best.items()
        )
        raise ValueError(
            f"{pipeline.id} on {engine} has no number of GPUs for all of the types: {plans_in_words}; leave out one of "
            "them"
        )
    first_gpu = next(iter(hosts_of_gpu))
    return min(candidates, key=lambda plans: _preference(plans[first_gpu], objective))


def choose_parallel_plan(
    pipeline: Pipeline,
    engine: str,
    hosts: Sequence[Host],
    workload: Workload,
    objective: Objective,
    gpus: int | None = None,
) -> ParallelPlan:
    """Return the best parallel plan of workers on hosts that have the same GPU model.

    For throughput, it uses as few GPUs as a worker fits on. For latency, it uses all GPUs of a host: first to run both
    prompts at once, then to share the sequence. Weights are shared as far as they must, and offloaded only if they fit
    no other way. `gpus` fixes the number of GPUs. Raises ValueError with the reason if there is no plan.
    """
    if engine in GENERATOR_ABILITIES:
        modes = pipeline.modes
        if not set(modes) & set(GENERATOR_ABILITIES[engine].modes):
            raise ValueError(f"{engine} does none of the modes of {pipeline.id}: {', '.join(modes)}")
    plans = [plan for plan in _all_plans() if gpus in (None, plan.gpus)]
    plans.sort(key=lambda plan: _preference(plan, objective))
    reasons_of_plan = [
        [reason for host in hosts if (reason := why_not_parallel_plan(plan, pipeline, engine, host, workload))]
        for plan in plans
    ]
    for plan, reasons in zip(plans, reasons_of_plan, strict=True):
        if not reasons:
            return plan

    def distance(candidate: tuple[ParallelPlan, list[str]]) -> tuple[bool, float]:
        """Order plans for the message: those that lack only memory first, and of these the one that needs the least."""
        plan, reasons = candidate
        lacks_only_memory = all(reason.startswith("needs") for reason in reasons)
        return not lacks_only_memory, gib_per_gpu(plan, pipeline, engine, workload)

    plan, reasons = min(zip(plans, reasons_of_plan, strict=True), key=distance)
    names = ", ".join(host.name for host in hosts)
    raise ValueError(f"{pipeline.id} on {engine} has no plan for {names}: {plan} {reasons[0]}")


def parallel_plan_for_machine(pipeline: Pipeline, engine: str, host: Host, workload: Workload) -> ParallelPlan:
    """Return a parallel plan for all GPUs of a machine that is no known instance type.

    If no plan carries the workload, this is the one that needs the least memory, because smaller jobs may still fit.
    Raises ValueError if the engine cannot use the machine's number of GPUs.
    """
    with suppress(ValueError):
        return choose_parallel_plan(pipeline, engine, [host], workload, "throughput", host.gpus)
    plans = [plan for plan in _all_plans() if plan.gpus == host.gpus]
    reasons = [_why_engine_cannot(plan, GENERATOR_ABILITIES.get(engine), engine, workload) for plan in plans]
    possible = [plan for plan, reason in zip(plans, reasons, strict=True) if reason is None]
    if not possible:
        raise ValueError(f"{engine} has no plan for {host.gpus} GPUs" + (f": {reasons[0]}" if reasons else ""))
    return min(possible, key=lambda plan: gib_per_gpu(plan, pipeline, engine, workload))


def why_not_parallel_plan(
    plan: ParallelPlan, pipeline: Pipeline, engine: str, host: Host, workload: Workload
) -> str | None:
    """Return why a worker with this parallel plan cannot run on a host; None if it can."""
    if reason := _why_engine_cannot(plan, GENERATOR_ABILITIES.get(engine), engine, workload):
        return reason
    if host.gpus % plan.gpus:
        return f"{plan.gpus} GPUs do not fill the {host.gpus} of {host.name}"
    need, available = gib_per_gpu(plan, pipeline, engine, workload), usable_gib(host.gpu_gib)
    if need > available:
        return f"needs {need:.1f} GiB of a GPU, {host.name} has {available:.1f}"
    need, available = offloaded_gib(plan, pipeline), host.memory_gib * plan.gpus / host.gpus
    if need > available:
        return f"needs {need:.0f} GiB of the host's memory, its share of {host.name} is {available:.0f}"
    return None


def instance_types_for(pipeline: Pipeline, engine: str, workload: Workload, *, offload: bool = False) -> list[str]:
    """Return the instance types with a parallel plan for this workload, either those with offload or those without."""
    types = []
    for name, instance in INSTANCE_TYPES.items():
        with suppress(ValueError):
            plan = choose_parallel_plan(pipeline, engine, [Host.of_type(name)], workload, "throughput")
            planned = with_parallel_plans(pipeline, engine, {instance.gpu: plan}, workload)
            if not (why_not(planned, name) or why_not_together(planned, [name])):
                types += [name] if plan.offload == offload else []
    return types


def refuse_lossy_deployment(modes: Sequence[LossyMode], pipeline: Pipeline, engine: str, plans: ParallelPlans) -> None:
    """Raise ValueError if workers with these parallel plans cannot have these lossy modes."""
    key = f"{pipeline.config_key}.lossy"
    for mode in modes:
        able = [name for name, abilities in GENERATOR_ABILITIES.items() if mode in abilities.lossy]
        if engine not in able:
            raise ValueError(f"{key}: {engine} has no {mode}; use engine {' or '.join(able)}, or leave {mode} out")
    if "fp8Attention" in modes and (others := [gpu for gpu in plans if GPUS[gpu].compute_capability[0] != HOPPER]):
        raise ValueError(
            f"{key}: fp8Attention needs an H100 or H200, and instanceTypes have {' and '.join(others)}; leave one out"
        )
    if modes and (offloading := [gpu for gpu, plan in plans.items() if plan.offload]):
        smallest = Workload.largest(pipeline.modes, "256p", guardrails=True)
        need = gib_per_gpu(ParallelPlan(), pipeline, engine, smallest)
        fits_smaller = all(need <= usable_gib(GPUS[gpu].memory_gib) for gpu in offloading)
        smaller = ', or maxResolution "256p"' if fits_smaller else ""
        raise ValueError(
            f"{key}: {' and '.join(modes)} cannot be combined with offload, which the plan for "
            f"{' and '.join(offloading)} uses; use types with more memory{smaller}"
        )


def with_parallel_plans(pipeline: Pipeline, engine: str, plans: ParallelPlans, workload: Workload) -> Pipeline:
    """Return the pipeline with the number of GPUs that its workers reserve, and the least memory of a suitable GPU."""
    need = min(gib_per_gpu(plan, pipeline, engine, workload) for plan in plans.values())
    suitable = [
        instance.gpu_memory_gb
        for instance in INSTANCE_TYPES.values()
        if usable_gib(GPUS[instance.gpu].memory_gib) >= need
    ]
    gpus = next(iter(plans.values())).gpus
    return replace(pipeline, gpus_per_worker=gpus, min_gpu_memory_gb=min(suitable))


def types_that_carry(pipeline: Pipeline, engine: str, workload: Workload) -> str:
    """Return the instance types that have a plan for a workload, as the end of a sentence."""
    options = []
    if types := instance_types_for(pipeline, engine, workload):
        options.append(", ".join(types))
    if types := instance_types_for(pipeline, engine, workload, offload=True):
        options.append(f"with offload to the host's memory for {', '.join(types)}")
    return f"it has one for {', and '.join(options)}" if options else f"no known instance type carries it on {engine}"


def _all_plans() -> list[ParallelPlan]:
    return [
        ParallelPlan(tp=tp, cfg=cfg, ulysses=ulysses, offload=offload)
        for tp, cfg, ulysses, offload in product(DEGREES, (1, 2), DEGREES, (False, True))
    ]


def _preference(plan: ParallelPlan, objective: Objective) -> tuple[int, ...]:
    """Return a sort key, the preferred plan first.

    With offload, a plan that shares the weights among more GPUs is preferred, because each GPU transfers a
    smaller part.
    """
    if plan.offload:
        return (1, -plan.tp, -plan.gpus if objective == "latency" else plan.gpus, -plan.cfg)
    if objective == "throughput":
        return (0, plan.gpus, plan.tp, -plan.cfg)
    return (0, -plan.gpus, plan.tp, -plan.cfg)


def _why_engine_cannot(
    plan: ParallelPlan, abilities: GeneratorAbilities | None, engine: str, workload: Workload
) -> str | None:
    """Return why an engine cannot use this parallel plan on any GPU; custom engines are not checked."""
    shared_axes = [axis for axis in ("tp", "cfg", "ulysses") if getattr(plan, axis) > 1]
    if plan.tp * plan.ulysses > KV_HEADS:
        return f"tp x ulysses is {plan.tp * plan.ulysses}, and the model has {KV_HEADS} KV heads"
    if plan.cfg > 1 and not workload.guided:
        return "cfg 2 has no use without guidance"
    if abilities is None:
        return None
    if missing := [axis for axis in shared_axes if axis not in abilities.axes]:
        return f"{engine} does not share by {', '.join(missing)}"
    if abilities.exclusive_axes and plan.tp > 1 and len(shared_axes) > 1:
        return f"{engine} can shard the weights over all GPUs of a worker, or share the job, but not both"
    if plan.offload and not abilities.offload:
        return f"{engine} has no offload"
    return None
