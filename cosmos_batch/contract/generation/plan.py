"""How the GPUs of a worker share one generation, and how many workers fill an instance.

A plan belongs to a worker, which loads its model once: it covers the largest job that its pipeline admits, by the
arithmetic of `memory`. Published times say when to share at all: on 1, 4 and 8 H100 vLLM-Omni takes 202, 63 and 38 s
for Nano at 720p, which are 202, 251 and 302 GPU-seconds.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product

from cosmos_batch.catalogue.hardware import INSTANCE_TYPES
from cosmos_batch.catalogue.pipelines import Pipeline
from cosmos_batch.contract.entries import Objective
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.engines import ABILITIES, Abilities
from cosmos_batch.contract.generation.lossy import LossyMode
from cosmos_batch.contract.generation.memory import GPU_GIB, Host, Workload, gib_per_gpu, offloaded_gib, usable_gib
from cosmos_batch.contract.generation.modes import MODES_OF_PIPELINE
from cosmos_batch.contract.generation.schema import Generation
from cosmos_batch.contract.generation.serving import ParallelPlan, Plans, Serving
from cosmos_batch.planning.instance_types import why_not, why_not_together

DEGREES = (1, 2, 4, 8)
KV_HEADS = 8  # of Nano and of Super: tensor and Ulysses parallelism share them


def choose_plans(
    pipeline: Pipeline, engine: str, instance_types: Sequence[str], workload: Workload, objective: Objective
) -> Plans:
    """The plan for each kind of GPU among these types. Raises ValueError with the reason, and types that would do,
    where there is none.

    A worker reserves the same number of GPUs wherever it runs; the plans differ in how it uses them. The number is the
    best for the first type.
    """
    kinds: dict[str, list[Host]] = {}
    for name in instance_types:
        kinds.setdefault(INSTANCE_TYPES[name].gpu, []).append(Host.of_type(name))
    try:
        best = {kind: choose_plan(pipeline, engine, hosts, workload, objective) for kind, hosts in kinds.items()}
    except ValueError as error:
        raise ValueError(f"{error}; {_would_do(pipeline, engine, workload)}") from error
    found = []
    for gpus in DEGREES:
        with suppress(ValueError):
            found.append(
                {kind: choose_plan(pipeline, engine, hosts, workload, objective, gpus) for kind, hosts in kinds.items()}
            )
    if not found:
        each = ", ".join(f"{plan} on {' and '.join(host.name for host in kinds[kind])}" for kind, plan in best.items())
        raise ValueError(
            f"{pipeline.id} on {engine} has no number of GPUs for all of the types: {each}; leave out one of them"
        )
    first = next(iter(kinds))
    return min(found, key=lambda plans: _order(plans[first], objective))


def choose_plan(
    pipeline: Pipeline,
    engine: str,
    hosts: Sequence[Host],
    workload: Workload,
    objective: Objective,
    gpus: int | None = None,
) -> ParallelPlan:
    """The plan of workers on hosts with one kind of GPU. Raises ValueError with the reason where there is none.

    For throughput, as few GPUs as a worker fits on. For latency all of a host: guidance first, then the sequence;
    weights are shared to fit, and wait in the host's memory only where they do not fit otherwise. `gpus` is a number
    that is given.
    """
    if engine in ABILITIES and not set(MODES_OF_PIPELINE[pipeline.id]) & set(ABILITIES[engine].modes):
        raise ValueError(
            f"{engine} does none of the modes of {pipeline.id}: {', '.join(MODES_OF_PIPELINE[pipeline.id])}"
        )
    plans = [plan for plan in _plans() if gpus in (None, plan.gpus)]
    plans.sort(key=lambda plan: _order(plan, objective))
    against = [
        [reason for host in hosts if (reason := why_not_plan(plan, pipeline, engine, host, workload))] for plan in plans
    ]
    for plan, reasons in zip(plans, against, strict=True):
        if not reasons:
            return plan
    plan, reasons = min(
        zip(plans, against, strict=True), key=lambda one: _distance(one[0], one[1], pipeline, engine, workload)
    )
    names = ", ".join(host.name for host in hosts)
    raise ValueError(f"{pipeline.id} on {engine} has no plan for {names}: {plan} {reasons[0]}")


def plan_for_machine(pipeline: Pipeline, engine: str, host: Host, workload: Workload) -> ParallelPlan:
    """The plan for all GPUs of a machine that is no instance type of ours: one that fits, or else the one that needs
    least, for smaller jobs may fit. Raises ValueError where the engine has none for so many GPUs.
    """
    with suppress(ValueError):
        return choose_plan(pipeline, engine, [host], workload, "throughput", host.gpus)
    plans = [plan for plan in _plans() if plan.gpus == host.gpus]
    reasons = [_why_not_shared(plan, ABILITIES.get(engine), engine, workload) for plan in plans]
    possible = [plan for plan, reason in zip(plans, reasons, strict=True) if reason is None]
    if not possible:
        raise ValueError(f"{engine} has no plan for {host.gpus} GPUs" + (f": {reasons[0]}" if reasons else ""))
    return min(possible, key=lambda plan: gib_per_gpu(plan, pipeline, engine, workload))


def why_not_plan(plan: ParallelPlan, pipeline: Pipeline, engine: str, host: Host, workload: Workload) -> str | None:
    """Why a worker of this plan does not run on a host; None if it does."""
    if reason := _why_not_shared(plan, ABILITIES.get(engine), engine, workload):
        return reason
    if host.gpus % plan.gpus:
        return f"{plan.gpus} GPUs do not fill the {host.gpus} of {host.name}"
    need, has = gib_per_gpu(plan, pipeline, engine, workload), usable_gib(host.gpu_gib)
    if need > has:
        return f"needs {need:.1f} GiB of a GPU, {host.name} has {has:.1f}"
    need, has = offloaded_gib(plan, pipeline), host.memory_gib * plan.gpus / host.gpus
    if need > has:
        return f"needs {need:.0f} GiB of the host's memory, its share of {host.name} is {has:.0f}"
    return None


def types_for(pipeline: Pipeline, engine: str, workload: Workload) -> list[str]:
    """The instance types on which a pipeline has a plan for this: those that need no offload, where there are any."""
    found: dict[str, bool] = {}
    for name, instance in INSTANCE_TYPES.items():
        with suppress(ValueError):
            plan = choose_plan(pipeline, engine, [Host.of_type(name)], workload, "throughput")
            worker = planned(pipeline, engine, {instance.gpu: plan}, workload)
            if not (why_not(worker, name) or why_not_together(worker, [name])):
                found[name] = plan.offload
    return [name for name, offload in found.items() if not offload] or list(found)


def refuse_job(job: Generation, serving: Serving, pipeline: Pipeline) -> None:
    """Raises Failure where a job is larger than the pipeline's workers, on any kind of their GPUs."""
    workload = Workload.of(job, serving.guardrails)
    for gpu, plan in serving.plans.items():
        need, has = gib_per_gpu(plan, pipeline, serving.engine, workload), usable_gib(GPU_GIB[gpu])
        if need > has:
            raise Failure(
                "InvalidInput",
                f"The job needs {need:.0f} GiB of a GPU, and the workers of {pipeline.id} ({plan}) have {has:.0f}.",
                "Ask for fewer frames, a smaller resolution, fewer controls or a shorter prompt; or deploy the "
                f"pipeline on other types: {_would_do(pipeline, serving.engine, workload)}.",
            )


def refuse_lossy(modes: Sequence[LossyMode], pipeline: Pipeline, engine: str, plans: Plans) -> None:
    """Raises ValueError where workers of these plans could not have these modes."""
    key = f"{pipeline.config_key}.lossy"
    for mode in modes:
        able = [name for name, one in ABILITIES.items() if mode in one.lossy]
        if engine not in able:
            raise ValueError(f"{key}: {engine} has no {mode}; take engine {' or '.join(able)}, or leave {mode} out")
    if modes and (waiting := [kind for kind, plan in plans.items() if plan.offload]):
        smallest = Workload.largest(MODES_OF_PIPELINE[pipeline.id], "256p", guardrails=True)
        needs = gib_per_gpu(ParallelPlan(), pipeline, engine, smallest)
        smaller = ', or maxResolution "256p"' if all(needs <= usable_gib(GPU_GIB[kind]) for kind in waiting) else ""
        raise ValueError(
            f"{key}: {' and '.join(modes)} and layers that wait in the host's memory do not go together, and on "
            f"{' and '.join(waiting)} they wait; take types with more memory{smaller}"
        )


def planned(pipeline: Pipeline, engine: str, plans: Plans, workload: Workload) -> Pipeline:
    """The pipeline with the GPUs that its workers reserve, and the least memory of one that carries its share."""
    needs = [gib_per_gpu(plan, pipeline, engine, workload) for plan in plans.values()]
    fits = [one.gpu_memory_gb for one in INSTANCE_TYPES.values() if usable_gib(GPU_GIB[one.gpu]) >= min(needs)]
    return replace(pipeline, gpus_per_worker=next(iter(plans.values())).gpus, min_gpu_memory_gb=min(fits))


def _would_do(pipeline: Pipeline, engine: str, workload: Workload) -> str:
    types = types_for(pipeline, engine, workload)
    return f"it has one for {', '.join(types)}" if types else f"no type of ours carries it on {engine}"


def _plans() -> list[ParallelPlan]:
    return [
        ParallelPlan(tp=tp, cfg=cfg, ulysses=ulysses, offload=offload)
        for tp, cfg, ulysses, offload in product(DEGREES, (1, 2), DEGREES, (False, True))
    ]


def _order(plan: ParallelPlan, objective: Objective) -> tuple[int, ...]:
    """The preferred plan first. With offload each GPU moves its share of the weights: the smaller, the faster."""
    if plan.offload:
        return (1, -plan.tp, -plan.gpus if objective == "latency" else plan.gpus, -plan.cfg)
    if objective == "throughput":
        return (0, plan.gpus, plan.tp, -plan.cfg)
    return (0, -plan.gpus, plan.tp, -plan.cfg)


def _why_not_shared(plan: ParallelPlan, engine: Abilities | None, name: str, workload: Workload) -> str | None:
    """What stands against it whatever the GPUs; of an engine by its class we know nothing."""
    shared = [axis for axis in ("tp", "cfg", "ulysses") if getattr(plan, axis) > 1]
    if plan.tp * plan.ulysses > KV_HEADS:
        return f"tp x ulysses is {plan.tp * plan.ulysses}, and the model has {KV_HEADS} KV heads"
    if plan.cfg > 1 and not workload.guided:
        return "cfg 2 has nothing to do without guidance"
    if engine is None:
        return None
    if missing := [axis for axis in shared if axis not in engine.axes]:
        return f"{name} does not share by {', '.join(missing)}"
    if engine.exclusive_axes and plan.tp > 1 and len(shared) > 1:
        return f"{name} shards the weights over all GPUs of a worker, or shares the job, and not both"
    if plan.offload and not engine.offload:
        return f"{name} has no offload"
    return None


def _distance(
    plan: ParallelPlan, reasons: list[str], pipeline: Pipeline, engine: str, workload: Workload
) -> tuple[bool, float]:
    """How far a plan is from one that runs: of those that the engine knows, the one that needs least is told about."""
    return not all(reason.startswith("needs") for reason in reasons), gib_per_gpu(plan, pipeline, engine, workload)
