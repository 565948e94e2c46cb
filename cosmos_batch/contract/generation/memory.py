"""The memory that one generation takes of each GPU, and what a host has.

Weights by the degree of sharing, VAE, sound, and peaks measured on an H100 with Nano and 189 frames: with Diffusers at
320x192, 832x480 and 1280x720 (`docs/benchmarks.md`), with vLLM-Omni at 832x480.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

from cosmos_batch.catalogue.hardware import INSTANCE_TYPES, USABLE_MEMORY
from cosmos_batch.catalogue.pipelines import Pipeline
from cosmos_batch.contract.generation.modes import MODES, Mode
from cosmos_batch.contract.generation.prompts import SEQUENCE_LIMIT
from cosmos_batch.contract.generation.schema import Generation
from cosmos_batch.contract.generation.serving import ParallelPlan
from cosmos_batch.contract.generation.sizes import FRAME_LIMIT, SIZES, VIDEO_RESOLUTIONS, Resolution

# GiB, as `nvidia-smi` shows it, of which the CUDA context takes one.
GPU_GIB = {"A10G": 22.5, "L4": 22.5, "L40S": 45.0, "H100": 79.6, "H200": 140.4}
CONTEXT_GIB = 1.0
RESERVE = 0.03  # of a GPU, for what an allocator cannot use: an estimate

WEIGHTS_GIB: dict[str, dict[int, float]] = {
    "Nano": {1: 28.3, 2: 15.3, 4: 8.9, 8: 5.6},
    "Super": {1: 119, 2: 61, 4: 32, 8: 17.5},
}
VAE_AND_SOUND_GIB = 1.3 + 0.9
RESIDENT_SHARE = 0.1  # of the weights, where layers wait in the host's memory: embeddings and the layers in use
GUARDRAILS_GIB = 2.4  # Qwen3Guard-Gen-0.6B in float32, and RetinaFace

# Keys and values of a prompt are kept for all steps: layers x (key, value) x 8 heads x 128 x bfloat16.
KEPT_GIB_PER_TOKEN = {"Nano": 36 * 2 * 8 * 128 * 2 / 2**30, "Super": 64 * 2 * 8 * 128 * 2 / 2**30}

# Megapixels of all frames together, and the GiB beside weights and VAE at the peak. Every GPU of a plan is counted with
# all of it: the VAE decodes a whole video wherever it does. Measured with Diffusers and with a video encoded too, as
# some modes do; text to video, which encodes none, takes up to 0.9 less.
PEAKS = ((0.0, 1.8), (11.6, 1.8), (75.5, 5.9), (174.2, 12.4))
# vLLM-Omni 0.30.0 held 39.0 GiB at 832x480 where Diffusers took 35.6, both from text. At 1280x720 it was not measured:
# the difference is taken to be the same there, and none for images and for the smallest videos.
_OMNI_SURPLUS = 39.0 - 35.6
PEAKS_OF: dict[str, tuple[tuple[float, float], ...]] = {
    "vllm-omni": (*PEAKS[:2], *((megapixels, gib + _OMNI_SURPLUS) for megapixels, gib in PEAKS[2:])),
}
CONTROL_SHARE = 0.3  # of a video's peak, for each control beside it: its tokens' activations, an estimate


@dataclass(frozen=True)
class Workload:
    """The largest job of a worker.

    Attributes
    ----------
    megapixels
        Of all frames together, those of controls counted by their share.
    guided
        Whether steps run for the negative prompt too.
    guardrails
        Whether the worker has loaded any.
    tokens
        Of all its prompts.
    """

    megapixels: float
    guided: bool
    guardrails: bool
    tokens: int = 2 * SEQUENCE_LIMIT

    @classmethod
    def largest(cls, modes: Sequence[Mode], resolution: Resolution, guardrails: bool) -> Self:
        """Of what a pipeline of these modes admits up to a resolution."""
        tiers = VIDEO_RESOLUTIONS[: VIDEO_RESOLUTIONS.index(resolution) + 1] if resolution in VIDEO_RESOLUTIONS else ()
        areas = {tier: max(size.area for size in SIZES[tier].values()) for tier in SIZES}
        image = areas["768p"] / 1e6
        videos = [areas[tier] * FRAME_LIMIT[tier] / 1e6 for tier in tiers if set(modes) - {"t2i"}]
        return cls(max([image, *videos]), any(MODES[mode].guidance_scale != 1 for mode in modes), guardrails)

    @classmethod
    def of(cls, job: Generation, guardrails: bool) -> Self:
        """Of one job: the largest of its tier's sizes, where the input is not seen yet."""
        area = job.size.area if job.size else max(size.area for size in SIZES[job.resolution or "720p"].values())
        frames = float(job.num_frames or FRAME_LIMIT["720p"])
        if job.transfer:
            frames = min(frames, job.transfer.frames_per_chunk) * (1 + CONTROL_SHARE * len(job.transfer.controls))
        prompts = [job.prompt, job.negative_prompt] if job.guided else [job.prompt]
        tokens = sum(min(len(text.encode()), SEQUENCE_LIMIT) for text in prompts)  # never more than bytes
        return cls(area * frames / 1e6, job.guided, guardrails, tokens)

    def peak_gib(self, engine: str) -> float:
        """What an engine takes beside weights and VAE: between what was measured, and beyond it as steeply as before.

        An engine of which nothing was measured is taken to need what Diffusers does.
        """
        segments = list(pairwise(PEAKS_OF.get(engine, PEAKS)))
        (x0, y0), (x1, y1) = next((one for one in segments if self.megapixels <= one[1][0]), segments[-1])
        return y0 + (self.megapixels - x0) * (y1 - y0) / (x1 - x0)


@dataclass(frozen=True)
class Host:
    """Where workers run.

    Attributes
    ----------
    name
        For a person.
    gpus
        How many it has.
    gpu_gib
        Of each.
    memory_gib
        Its own, that workers can use.
    """

    name: str
    gpus: int
    gpu_gib: float
    memory_gib: float

    @classmethod
    def of_type(cls, name: str) -> Self:
        """An instance type of EC2."""
        one = INSTANCE_TYPES[name]
        return cls(name, one.gpus, GPU_GIB[one.gpu], one.memory_gib * USABLE_MEMORY)


def gib_per_gpu(plan: ParallelPlan, pipeline: Pipeline, engine: str, workload: Workload) -> float:
    """What a worker of this plan takes of each of its GPUs at the peak of its largest job."""
    weights = WEIGHTS_GIB[pipeline.model_size][plan.tp] * (RESIDENT_SHARE if plan.offload else 1)
    kept = workload.tokens * KEPT_GIB_PER_TOKEN[pipeline.model_size] / plan.tp
    guardrails = GUARDRAILS_GIB if workload.guardrails else 0
    return weights + VAE_AND_SOUND_GIB + workload.peak_gib(engine) + kept + guardrails + CONTEXT_GIB


def usable_gib(gpu_gib: float) -> float:
    """Of a GPU."""
    return gpu_gib * (1 - RESERVE)


def offloaded_gib(plan: ParallelPlan, pipeline: Pipeline) -> float:
    """Of the worker's host, where layers wait there: each GPU has its own."""
    return WEIGHTS_GIB[pipeline.model_size][plan.tp] * plan.gpus if plan.offload else 0
