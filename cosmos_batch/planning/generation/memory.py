"""Estimate how much memory a generation takes on each GPU of a worker, and how much a host has.

Weights of Nano and Super by tensor parallelism, VAE, sound and peaks were measured on an H100 with Nano and 189 frames.
Those of Diffusers at 1280x720 are of an earlier PyTorch, and what ships takes less at 832x480. What nvidia-smi counted
on an H200 in each size, with memory that PyTorch keeps for later jobs, is less than this needs with its reserve
(docs/benchmarks.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

from cosmos_batch.catalogue.engines import GENERATOR_ABILITIES
from cosmos_batch.catalogue.generation import FRAME_LIMIT, MODES, SIZES, VIDEO_RESOLUTIONS, Mode, Resolution
from cosmos_batch.catalogue.generator_abilities import PEAKS_OF_DIFFUSERS
from cosmos_batch.catalogue.hardware import GPUS, INSTANCE_TYPES, USABLE_MEMORY
from cosmos_batch.catalogue.pipelines import GeneratorWeights, Pipeline
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.generation.parameters import SEQUENCE_LIMIT
from cosmos_batch.contract.generation.serving import ParallelPlan

CONTEXT_GIB = 1.0  # the CUDA context takes this of each GPU
# GPUs that share a job hold buffers for what they send each other. Without them, one GPU took 0.6 GiB less than was
# computed for vLLM-Omni at 320x192, and each of two with tp 2 just as much as was computed (docs/benchmarks.md).
BUFFERS_GIB = 0.5
RESERVE = 0.03  # the share of a GPU that an allocator cannot use; an estimate

VAE_AND_SOUND_GIB = 1.3 + 0.9
RESIDENT_SHARE = 0.1  # the share of offloaded weights that stays on the GPU: embeddings and the layers in use
GUARDRAILS_GIB = 2.4  # the memory that Qwen3Guard-Gen-0.6B in float32 and RetinaFace take

# The keys and values of a prompt are kept for all steps, in each layer: (key, value) x 8 heads x 128 x bfloat16.
KEY_VALUE_BYTES_PER_LAYER = 2 * 8 * 128 * 2
CONTROL_SHARE = 0.3  # each control video's tokens count as this share of the video's megapixels; an estimate


@dataclass(frozen=True)
class Workload:
    """The properties of a generation that its memory depends on.

    Attributes
    ----------
    megapixels
        Megapixels of all frames together, plus a share for each control video.
    guided
        Whether each step also runs the model for the negative prompt.
    guardrails
        Whether the worker has loaded guardrails.
    tokens
        Tokens of all prompts together.
    """

    megapixels: float
    guided: bool
    guardrails: bool
    tokens: int = 2 * SEQUENCE_LIMIT

    @classmethod
    def largest(cls, modes: Sequence[Mode], resolution: Resolution, guardrails: bool, distilled: bool = False) -> Self:
        """Return the largest workload that a pipeline with these modes admits, with videos up to a resolution.

        A distilled model needs less memory, because it never runs for the negative prompt (guidance).
        """
        tiers = VIDEO_RESOLUTIONS[: VIDEO_RESOLUTIONS.index(resolution) + 1] if resolution in VIDEO_RESOLUTIONS else ()
        areas = {tier: max(size.area for size in SIZES[tier].values()) for tier in SIZES}
        image = areas["768p"] / 1e6
        videos = [areas[tier] * FRAME_LIMIT[tier] / 1e6 for tier in tiers if set(modes) - {"t2i"}]
        guided = not distilled and any(MODES[mode].guidance_scale != 1 for mode in modes)
        return cls(max([image, *videos]), guided, guardrails)

    @classmethod
    def of(cls, generation: Generation, guardrails: bool) -> Self:
        """Return the workload of a generation: with the largest size of its tier while its size is not known."""
        sizes = [generation.size] if generation.size else SIZES[generation.resolution or "720p"].values()
        area = max(size.area for size in sizes)
        frames = float(generation.num_frames or FRAME_LIMIT["720p"])
        if transfer := generation.transfer:
            frames = min(frames, transfer.frames_per_chunk) * (1 + CONTROL_SHARE * len(transfer.controls))
        prompts = [generation.prompt, generation.negative_prompt] if generation.guided else [generation.prompt]
        tokens = sum(min(len(text.encode()), SEQUENCE_LIMIT) for text in prompts)  # a token has at least one byte
        return cls(area * frames / 1e6, generation.guided, guardrails, tokens)

    def peak_gib(self, engine: str) -> float:
        """Return the peak GiB beside weights and VAE, interpolated between measurements and extrapolated beyond them.

        An engine that was not measured is assumed to need as much as Diffusers.
        """
        abilities = GENERATOR_ABILITIES.get(engine)
        segments = list(pairwise(abilities.memory_peaks if abilities else PEAKS_OF_DIFFUSERS))
        (x0, y0), (x1, y1) = next((segment for segment in segments if self.megapixels <= segment[1][0]), segments[-1])
        return y0 + (self.megapixels - x0) * (y1 - y0) / (x1 - x0)


@dataclass(frozen=True)
class Host:
    """The GPUs and memory of a machine that runs workers.

    Attributes
    ----------
    name
        The machine's name for people, such as its instance type.
    gpus
        How many GPUs it has.
    gpu_gib
        GiB of each GPU.
    memory_gib
        GiB of its own memory that workers can use.
    """

    name: str
    gpus: int
    gpu_gib: float
    memory_gib: float

    @classmethod
    def of_type(cls, name: str) -> Self:
        """Return the host that an EC2 instance type has."""
        instance = INSTANCE_TYPES[name]
        return cls(name, instance.gpus, GPUS[instance.gpu].memory_gib, instance.memory_gib * USABLE_MEMORY)


def gib_per_gpu(plan: ParallelPlan, pipeline: Pipeline, engine: str, workload: Workload) -> float:
    """Return the peak GiB that one GPU of a worker needs for this parallel plan and workload."""
    model = _weights_of(pipeline)
    weights = model.gib[plan.tp] * (RESIDENT_SHARE if plan.offload else 1)
    keys_and_values = workload.tokens * model.layers * KEY_VALUE_BYTES_PER_LAYER / 2**30 / plan.tp
    guardrails = GUARDRAILS_GIB if workload.guardrails else 0
    buffers = BUFFERS_GIB if plan.gpus > 1 else 0
    working = workload.peak_gib(engine) + keys_and_values + buffers
    return weights + VAE_AND_SOUND_GIB + working + guardrails + CONTEXT_GIB


def usable_gib(gpu_gib: float) -> float:
    """Return the GiB of a GPU that a worker can use."""
    return gpu_gib * (1 - RESERVE)


def offloaded_gib(plan: ParallelPlan, pipeline: Pipeline) -> float:
    """Return the GiB of the host's memory that a worker's offloaded layers take: each GPU has its own copy."""
    return _weights_of(pipeline).gib[plan.tp] * plan.gpus if plan.offload else 0


def _weights_of(pipeline: Pipeline) -> GeneratorWeights:
    assert pipeline.weights is not None, "every generator of the catalogue has them"
    return pipeline.weights
