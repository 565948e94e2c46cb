"""The weight of a job, and the seconds that a worker takes for a unit of weight. `scale` uses both (decision 071).

A reasoner's job has weight 1: its cost depends on the length of the video and of the answer, which are not known before
the file is opened, and which the size in bytes does not tell. The measured pace follows the mix of jobs.
A generation's weight is megapixels x frames x steps, and twice that if each step also runs the negative prompt.
"""

from cosmos_batch.catalogue.generation import MODES_OF_PIPELINE, SIZES
from cosmos_batch.catalogue.hardware import GPUS
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.job import Job

# Seconds of an H100 for a unit of weight when its worker is fully loaded. What is an estimate says so. The 2B and 8B
# were measured on one with vLLM 0.26.0, which no image has any more. On an H200 the one that ships takes 0.075 s for
# the same clips with the 2B (docs/benchmarks.md); the 8B was not measured again. Nano took 62.2 s for 832x480 and 189
# frames on the vLLM-Omni that ships.
_H100_SECONDS = {
    "cosmos-reason2-2b": 0.076,
    "cosmos3-edge-reason": 0.076,  # an estimate: its language model is as large as the 2B's
    "cosmos-reason2-8b": 0.152,
    "cosmos-reason2-32b": 0.608,  # an estimate: four times as large as the 8B
    "cosmos3-nano-reason": 0.152,  # an estimate: its language model is as large as the 8B
    "cosmos3-super-reason": 0.608,  # an estimate: four times as large
    "cosmos3-edge": 0.0069,  # NVIDIA's: 13.3 s for 832x480, 121 frames and 20 steps on vLLM-Omni; not measured here
    "cosmos3-nano": 0.0118,
    "cosmos3-super": 0.0495,  # an estimate, as the two below: 4.2 times Nano's weights
    "cosmos3-super-text2image": 0.0495,
    "cosmos3-super-image2video": 0.0495,
    "cosmos3-super-text2image-4step": 0.0495,  # a unit of weight is a step: fewer of them make a job lighter
    "cosmos3-super-image2video-4step": 0.0495,
}

# How many times as long as an H100 a GPU takes for a video, where somebody measured it. NVIDIA measured Nano in FP8
# with its Framework at 720p on both, in 94.01 and 173.02 s (`inference_benchmarks/` of NVIDIA/cosmos at c8353e1); the
# ratio is 1.51 at 256p and 1.82 at 480p.
MEASURED_TIMES_H100 = {"RTX PRO 6000": 1.84}

# A worker with n GPUs is n**0.8 times as fast. NVIDIA reports 202, 63 and 38 s for a video of Nano on 1, 4, 8 H100.
_GAIN_PER_GPU = 0.8

_TYPICAL_VIDEO = 12_000.0  # the weight of 720p, 189 frames, 35 steps and guidance
_TYPICAL_IMAGE = 100.0  # 1024x1024, 50 steps and guidance


def first_seconds_per_unit(pipeline: str, gpu: str, gpus: int) -> float:
    """Return the estimated seconds that a fully loaded worker takes for a unit of weight, until they are measured.

    >>> first_seconds_per_unit("cosmos-reason2-2b", "L40S", 1)
    0.295
    """
    return float(f"{_H100_SECONDS[pipeline] * times_h100(pipeline, gpu) / gpus**_GAIN_PER_GPU:.3g}")


def times_h100(pipeline: str, gpu: str) -> float:
    """Return how many times as long as an H100 a GPU takes: measured for generators, else by formula.

    The formula is the larger of the ratios of arithmetic and of memory bandwidth.
    """
    if pipeline in MODES_OF_PIPELINE and gpu in MEASURED_TIMES_H100:
        return MEASURED_TIMES_H100[gpu]
    h100, other = GPUS["H100"], GPUS[gpu]
    arithmetic = h100.tensor_tflops / other.tensor_tflops
    return max(arithmetic, h100.bandwidth_tb_per_s / other.bandwidth_tb_per_s)


def typical_weight(pipeline: str) -> float:
    """Return the weight of a job without one, such as those that commit 0f4e7e0 planned."""
    modes = MODES_OF_PIPELINE.get(pipeline)
    if modes is None:
        return 1.0
    return _TYPICAL_IMAGE if modes == ("t2i",) else _TYPICAL_VIDEO


def weight_of(job: Job) -> float:
    """Return the weight of a job, rounded to three decimals so that sums of many stay exact."""
    return 1.0 if job.generation is None else weight_of_generation(job.generation)


def weight_of_generation(generation: Generation) -> float:
    """Return the weight of a generation, rounded as `weight_of` does."""
    passes = 2 if generation.guided else 1
    return round(_megapixels(generation) * _frames(generation) * generation.steps * passes, 3)


def _megapixels(generation: Generation) -> float:
    """Return the megapixels of a frame; those of the tier's largest size if the size follows from the input."""
    if generation.size is not None:
        return generation.size.area / 1e6
    assert generation.resolution is not None, "a generation has a size or a tier"
    return max(size.area for size in SIZES[generation.resolution].values()) / 1e6


def _frames(generation: Generation) -> int:
    """Return the number of frames that the model computes. Each chunk of a transfer computes all of its frames.

    If the number follows from the control videos, one chunk is assumed.
    """
    frames, transfer = generation.num_frames, generation.transfer
    if transfer is None:
        assert frames is not None, "only a transfer may leave the number of frames to its control videos"
        return frames
    if frames is None:
        return transfer.frames_per_chunk
    return transfer.chunks(frames) * min(frames, transfer.frames_per_chunk)


def narrowed(known: float, seconds_per_unit: float, in_flight: float, places: int) -> float:
    """Return a fully loaded worker's seconds for a unit of weight, corrected by a measurement.

    `known` is the value so far; `seconds_per_unit` was measured with `in_flight` jobs in a worker with `places`. A
    worker that is not full could be up to `places / in_flight` times as fast, so a measurement bounds the value on both
    sides.

    >>> narrowed(0.3, seconds_per_unit=0.9, in_flight=1, places=256)  # one job in flight bounds the value only loosely
    0.3
    >>> narrowed(0.3, seconds_per_unit=0.08, in_flight=256, places=256)
    0.08
    """
    fastest = seconds_per_unit * min(1.0, in_flight / places)
    return min(max(known, fastest), seconds_per_unit)
