"""How the GPUs of a worker share one generation, and how many workers fill an instance.

A plan belongs to a worker, which loads its model once: it covers the largest job that its pipeline admits.

The memory of the arithmetic: weights by the degree of sharing, VAE, sound, and peaks measured on an H100 with Diffusers
at 320x192 and 832x480, 189 frames; 720p is what Nebius saw of Nano. Published times say when to share at all: on 1, 4
and 8 H100 vLLM-Omni takes 202, 63 and 38 s for Nano at 720p, which are 202, 251 and 302 GPU-seconds.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Literal, Self

from cosmos_batch.contract.catalogue import Pipeline
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.engines import ENGINES, Engine
from cosmos_batch.contract.generation.modes import MODES, MODES_OF_PIPELINE, Mode
from cosmos_batch.contract.generation.schema import Generation
from cosmos_batch.contract.generation.serving import ParallelPlan, Plans
from cosmos_batch.contract.generation.sizes import (
    FRAME_LIMIT,
    SIZES,
    VIDEO_RESOLUTIONS,
    Resolution,
    whole_frames,
)
from cosmos_batch.contract.instances import INSTANCE_TYPES

Objective = Literal["throughput", "latency"]

DEGREES = (1, 2, 4, 8)
KV_HEADS = 8  # of Nano and of Super: tensor and Ulysses parallelism share them

# GiB, as `nvidia-smi` shows it, of which the CUDA context takes one.
GPU_GIB = {"A10G": 22.5, "L4": 22.5, "L40S": 45.0, "H100": 79.6, "H200": 140.4}
CONTEXT_GIB = 1.0
HOST_SHARE = 0.92  # as in `capacity`

WEIGHTS_GIB: dict[str, dict[int, float]] = {
    "Nano": {1: 28.3, 2: 15.3, 4: 8.9, 8: 5.6},
    "Super": {1: 119, 2: 61, 4: 32, 8: 17.5},
}
VAE_AND_SOUND_GIB = 1.3 + 0.9
RESIDENT_SHARE = 0.1  # of the weights, where layers wait in the host's memory: embeddings and the layers in use

# Megapixels of all frames together, and the GiB beside weights and VAE at the peak. Every GPU of a plan is counted with
# all of it: the VAE decodes a whole video wherever it does.
PEAKS = ((0.0, 0.8), (11.6, 0.8), (75.5, 5.0), (174.2, 16.8))
CONTROL_SHARE = (
    0.3  # of a video's peak, for each control beside it: its tokens' activations, estimated and not measured
)


@dataclass(frozen=True)
class Workload:
    """The largest job of a worker.

    Attributes
    ----------
    megapixels
        Of all frames together, those of controls counted by their share.
    guided
        Whether steps run for the negative prompt too.
    """

    megapixels: float
    guided: bool

    @classmethod
    def largest(cls, modes: Sequence[Mode], resolution: Resolution) -> Self:
        """Of what a pipeline of these modes admits up to a resolution."""
        tiers = VIDEO_RESOLUTIONS[: VIDEO_RESOLUTIONS.index(resolution) + 1] if resolution in VIDEO_RESOLUTIONS else ()
        areas = {tier: max(size.area for size in SIZES[tier].values()) for tier in SIZES}
        image = areas["768p"] / 1e6
        videos = [areas[tier] * whole_frames(FRAME_LIMIT[tier]) / 1e6 for tier in tiers if set(modes) - {"t2i"}]
        return cls(max([image, *videos]), any(MODES[mode].guidance_scale != 1 for mode in modes))

    @classmethod
    def of(cls, job: Generation) -> Self:
        """Of one job: the largest of its tier's sizes, where the input is not seen yet."""
        area = job.size.area if job.size else max(size.area for size in SIZES[job.resolution or "720p"].values())
        frames = float(job.num_frames or FRAME_LIMIT["720p"])
        if job.transfer:
            frames = min(frames, job.transfer.frames_per_chunk) * (1 + CONTROL_SHARE * len(job.transfer.controls))
        return cls(area * frames / 1e6, job.guided)

    @property
    def peak_gib(self) -> float:
        """Beside weights and VAE: between what was measured, and beyond it as steeply as before."""
        segments = list(pairwise(PEAKS))
        (x0, y0), (x1, y1) = next((one for one in segments if self.megapixels <= one[1][0]), segments[-1])
        return y0 + (self.megapixels - x0) * (y1 - y0) / (x1 - x0)


def gib_per_gpu(plan: ParallelPlan, pipeline: Pipeline, workload: Workload) -> float:
    """At the peak."""
    weights = WEIGHTS_GIB[pipeline.model_size][plan.tp] * (RESIDENT_SHARE if plan.offload else 1)
    return weights + VAE_AND_SOUND_GIB + workload.peak_gib + CONTEXT_GIB


def host_gib(plan: ParallelPlan, pipeline: Pipeline) -> float:
    """Of the worker's host: where layers wait there, each GPU has its own."""
    return WEIGHTS_GIB[pipeline.model_size][plan.tp] * plan.gpus if plan.offload else pipeline.min_memory_gib


def choose_plans(
    pipeline: Pipeline, engine: str, instance_types: Sequence[str], workload: Workload, objective: Objective
) -> Plans:
    """The plan for each kind of GPU among these types. Raises ValueError with the reason where there is none.

    A worker reserves the same number of GPUs wherever it runs; the plans differ in how it uses them. The number is the
    best for the first type.
    """
    kinds: dict[str, list[str]] = {}
    for name in instance_types:
        kinds.setdefault(INSTANCE_TYPES[name].gpu, []).append(name)
    best = {kind: choose_plan(pipeline, engine, names, workload, objective) for kind, names in kinds.items()}
    found = []
    for gpus in DEGREES:
        with suppress(ValueError):
            found.append(
                {kind: choose_plan(pipeline, engine, names, workload, objective, gpus) for kind, names in kinds.items()}
            )
    if not found:
        each = ", ".join(f"{plan} on {' and '.join(kinds[kind])}" for kind, plan in best.items())
        raise ValueError(f"{pipeline.id} on {engine} has no number of GPUs for all of the types: {each}")
    first = next(iter(kinds))
    return min(found, key=lambda plans: _order(plans[first], objective))


def choose_plan(
    pipeline: Pipeline,
    engine: str,
    instance_types: Sequence[str],
    workload: Workload,
    objective: Objective,
    gpus: int | None = None,
) -> ParallelPlan:
    """The plan of workers on types of one kind of GPU. Raises ValueError with the reason where there is none.

    For throughput, as few GPUs as a worker fits on. For latency all of an instance: guidance first, then the sequence;
    weights are shared to fit, and wait in the host's memory only where they do not fit otherwise. `gpus` is a number
    that is given.
    """
    if engine in ENGINES and not set(MODES_OF_PIPELINE[pipeline.id]) & set(ENGINES[engine].modes):
        raise ValueError(
            f"{engine} does none of the modes of {pipeline.id}: {', '.join(MODES_OF_PIPELINE[pipeline.id])}"
        )
    plans = [plan for plan in _plans() if gpus in (None, plan.gpus)]
    plans.sort(key=lambda plan: _order(plan, objective))
    against = [
        [reason for name in instance_types if (reason := why_not_plan(plan, pipeline, engine, name, workload))]
        for plan in plans
    ]
    for plan, reasons in zip(plans, against, strict=True):
        if not reasons:
            return plan
    plan, reasons = min(zip(plans, against, strict=True), key=lambda one: _distance(one[0], one[1], pipeline, workload))
    raise ValueError(f"{pipeline.id} on {engine} has no plan for {', '.join(instance_types)}: {plan} {reasons[0]}")


def why_not_plan(
    plan: ParallelPlan, pipeline: Pipeline, engine: str, instance_type: str, workload: Workload
) -> str | None:
    """Why a worker of this plan does not run on an instance type; None if it does."""
    instance = INSTANCE_TYPES[instance_type]
    if reason := _why_not_shared(plan, ENGINES.get(engine), engine, workload):
        return reason
    if instance.gpus % plan.gpus:
        return f"{plan.gpus} GPUs do not fill the {instance.gpus} of {instance_type}"
    need, has = gib_per_gpu(plan, pipeline, workload), GPU_GIB[instance.gpu]
    if need > has:
        return f"needs {need:.1f} GiB of a GPU, {instance_type} has {has:g}"
    host = instance.memory_gib * HOST_SHARE * plan.gpus / instance.gpus
    if host_gib(plan, pipeline) > host:
        return (
            f"needs {host_gib(plan, pipeline):.0f} GiB of the host's memory, its share of {instance_type} is {host:.0f}"
        )
    return None


def refuse_reservation(plan: ParallelPlan, gpus: int) -> None:
    """Raises ValueError where a worker would reserve GPUs that the plan does not use, or too few."""
    if plan.gpus != gpus:
        raise ValueError(f"the plan ({plan}) uses {plan.gpus} GPUs, and the worker reserves {gpus}")


def refuse_job(job: Generation, plans: Plans, pipeline: Pipeline) -> None:
    """Raises Failure where a job is larger than the pipeline's workers, on any kind of their GPUs."""
    for gpu, plan in plans.items():
        need, has = gib_per_gpu(plan, pipeline, Workload.of(job)), GPU_GIB[gpu]
        if need > has:
            raise Failure(
                "InvalidInput",
                f"The job needs {need:.0f} GiB of a GPU, and the workers of {pipeline.id} ({plan}) have {has:.0f}.",
                "Ask for fewer frames, a smaller resolution or fewer controls, or deploy the pipeline on larger GPUs.",
            )


def planned(pipeline: Pipeline, plans: Plans, workload: Workload) -> Pipeline:
    """The pipeline with the GPUs that its workers reserve, and the least memory of one that carries its share."""
    needs = [gib_per_gpu(plan, pipeline, workload) for plan in plans.values()]
    fits = [one.gpu_memory_gb for one in INSTANCE_TYPES.values() if GPU_GIB[one.gpu] >= min(needs)]
    return replace(pipeline, gpus_per_worker=next(iter(plans.values())).gpus, min_gpu_memory_gb=min(fits))


def workers_on(plan: ParallelPlan, instance_type: str) -> int:
    """How many workers fill an instance."""
    return INSTANCE_TYPES[instance_type].gpus // plan.gpus


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
        return (0, plan.gpus, plan.tp)
    return (0, -plan.gpus, plan.tp, -plan.cfg)


def _why_not_shared(plan: ParallelPlan, engine: Engine | None, name: str, workload: Workload) -> str | None:
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


def _distance(plan: ParallelPlan, reasons: list[str], pipeline: Pipeline, workload: Workload) -> tuple[bool, float]:
    """How far a plan is from one that runs: of those that the engine knows, the one that needs least is told about."""
    return not all(reason.startswith("needs") for reason in reasons), gib_per_gpu(plan, pipeline, workload)
