"""The weight of a job, and the seconds that a worker takes for a unit of weight. `scale` uses both (decision 071).

A reasoner's job has weight 1: its cost depends on the length of the video and of the answer, which are not known before
the file is opened, and which the size in bytes does not tell. The measured pace follows the mix of jobs.
A generation's weight is its volume, megapixels x frames, times steps, and twice that if each step also runs the
negative prompt. Attention compares every token with every other one, so its share grows with the volume.
"""

from cosmos_batch.catalogue.generation import SIZES
from cosmos_batch.catalogue.hardware import GPUS
from cosmos_batch.catalogue.pipelines import PIPELINES, Pipeline
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.job import Job

# A worker with n GPUs is n**0.8 times as fast. NVIDIA reports 202, 63 and 38 s for a video of Nano on 1, 4, 8 H100.
_GAIN_PER_GPU = 0.8

# The volume at which attention takes as long as all the rest. On one H100 Nano takes 7.2, 56.7 and 202 s for 189 frames
# of 320x192, 832x480 and 1280x720 (docs/benchmarks.md, the last by NVIDIA): by their weights it is 5.9, 58 and 203 s.
_ATTENTION_VOLUME = 114.0

_TYPICAL_VIDEO = 31_000.0  # the weight of 720p, 189 frames, 35 steps and guidance
_TYPICAL_IMAGE = 100.0  # 1024x1024, 50 steps and guidance

_PIPELINE_BY_ID = {pipeline.id: pipeline for pipeline in PIPELINES}


def first_seconds_per_unit(pipeline: str, gpu: str, gpus: int) -> float:
    """Return the estimated seconds that a fully loaded worker takes for a unit of weight, until they are measured.

    >>> first_seconds_per_unit("cosmos-reason2-2b", "L40S", 1)
    0.295
    """
    row = _PIPELINE_BY_ID[pipeline]
    return float(f"{row.h100_seconds * times_h100(row, gpu) / gpus**_GAIN_PER_GPU:.3g}")


def times_h100(pipeline: Pipeline, gpu: str) -> float:
    """Return how many times as long as an H100 a GPU takes: as it was measured, else by formula.

    The formula is the larger of the ratios of arithmetic and of memory bandwidth.
    """
    h100, other = GPUS["H100"], GPUS[gpu]
    measured = other.video_times_h100 if pipeline.surface == "generator" else other.clip_times_h100
    if measured is not None:
        return measured
    arithmetic = h100.tensor_tflops / other.tensor_tflops
    return max(arithmetic, h100.bandwidth_tb_per_s / other.bandwidth_tb_per_s)


def typical_weight(pipeline: str) -> float:
    """Return the weight of a job without one, such as those that commit 0f4e7e0 planned."""
    modes = _PIPELINE_BY_ID[pipeline].modes
    if not modes:
        return 1.0
    return _TYPICAL_IMAGE if modes == ("t2i",) else _TYPICAL_VIDEO


def weight_of(job: Job) -> float:
    """Return the weight of a job, rounded to three decimals so that sums of many stay exact."""
    return 1.0 if job.generation is None else weight_of_generation(job.generation)


def weight_of_generation(generation: Generation) -> float:
    """Return the weight of a generation, rounded as `weight_of` does."""
    frames, chunks = _frames(generation)
    weight = chunks * weight_of_frames(_megapixels(generation), frames, generation.steps, guided=generation.guided)
    return round(weight, 3)


def weight_of_frames(megapixels: float, frames: int, steps: int, *, guided: bool) -> float:
    """Return the weight of frames that the model computes at once. `megapixels` is the size of one of them.

    `guided` means that each step also runs the negative prompt.

    >>> round(weight_of_frames(1280 * 720 / 1e6, 189, 35, guided=True))
    30822
    """
    volume = megapixels * frames
    return volume * (1 + volume / _ATTENTION_VOLUME) * steps * (2 if guided else 1)


def _megapixels(generation: Generation) -> float:
    """Return the megapixels of a frame; those of the tier's largest size if the size follows from the input."""
    if generation.size is not None:
        return generation.size.area / 1e6
    assert generation.resolution is not None, "a generation has a size or a tier"
    return max(size.area for size in SIZES[generation.resolution].values()) / 1e6


def _frames(generation: Generation) -> tuple[int, int]:
    """Return how many frames the model computes at once, and in how many chunks: one, but for transfers.

    If the number of frames follows from the control videos, one chunk is assumed.
    """
    frames, transfer = generation.num_frames, generation.transfer
    if transfer is None:
        assert frames is not None, "only a transfer may leave the number of frames to its control videos"
        return frames, 1
    if frames is None:
        return transfer.frames_per_chunk, 1
    return min(frames, transfer.frames_per_chunk), transfer.chunks(frames)


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
