"""What a job weighs, and how long a worker takes for a unit of that: what `scale` reckons with (decision 071).

A reasoner's job weighs one. What it costs, the seconds of its video and the tokens of its answer, nobody knows before
the file has been opened, and the size of a file in bytes says neither; the measured pace follows the mix.
A generation's weight is known when it is planned: megapixels x frames x steps, twice where each step runs the model for
the negative prompt too.
"""

from cosmos_batch.catalogue.generation import SIZES
from cosmos_batch.catalogue.hardware import GPUS
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.job import Job

# Seconds of an H100 for a unit of weight when its worker is fully loaded. Source: docs/benchmarks.md, and Nano at
# 832x480 with 189 frames in 62.2 s. What is an estimate says so.
_H100_SECONDS = {
    "cosmos-reason2-2b": 0.076,
    "cosmos-reason2-8b": 0.152,
    "cosmos3-nano-reason": 0.152,  # an estimate: its language model is as large as the 8B
    "cosmos3-super-reason": 0.608,  # an estimate: four times as large
    "cosmos3-nano": 0.0118,
    "cosmos3-super": 0.0495,  # an estimate, as the two below: 4.2 times Nano's weights
    "cosmos3-super-text2image": 0.0495,
    "cosmos3-super-image2video": 0.0495,
}

# Of a worker with several GPUs. NVIDIA has 202, 63 and 38 s for a video of Nano's on one, four and eight H100.
_GAIN_PER_GPU = 0.8

_TYPICAL_VIDEO = 12_000.0  # the weight of 720p, 189 frames, 35 steps and guidance
_TYPICAL_IMAGE = 100.0  # 1024x1024, 50 steps and guidance


def first_seconds_per_unit(pipeline: str, gpu: str, gpus: int) -> float:
    """How long a fully loaded worker takes for a unit of weight, until that has been measured.

    >>> first_seconds_per_unit("cosmos-reason2-2b", "L40S", 1)
    0.295
    """
    return float(f"{_H100_SECONDS[pipeline] * _times_h100(gpu) / gpus**_GAIN_PER_GPU:.3g}")


def _times_h100(gpu: str) -> float:
    """Return how many times as long as an H100 a GPU takes, by the slower of its arithmetic and its memory."""
    h100, other = GPUS["H100"], GPUS[gpu]
    arithmetic = h100.tensor_tflops / other.tensor_tflops
    return max(arithmetic, h100.bandwidth_tb_per_s / other.bandwidth_tb_per_s)


def typical_weight(pipeline: str) -> float:
    """The weight of a job whose own is not known: commit 0f4e7e0 wrote none."""
    if pipeline not in _GENERATORS:
        return 1.0
    return _TYPICAL_IMAGE if pipeline.endswith("text2image") else _TYPICAL_VIDEO


_GENERATORS = ("cosmos3-nano", "cosmos3-super", "cosmos3-super-text2image", "cosmos3-super-image2video")


def weight_of(job: Job) -> float:
    """The weight of a job, with three decimals so that sums of many stay exact."""
    return 1.0 if job.generation is None else round(_weight_of_generation(job.generation), 3)


def _weight_of_generation(generation: Generation) -> float:
    passes = 2 if generation.guided else 1
    return _megapixels(generation) * _frames(generation) * generation.steps * passes


def _megapixels(generation: Generation) -> float:
    """Of one frame; before the input is seen, those of the tier's largest size."""
    if generation.size is not None:
        return generation.size.area / 1e6
    assert generation.resolution is not None, "a generation has a size or a tier"
    return max(size.area for size in SIZES[generation.resolution].values()) / 1e6


def _frames(generation: Generation) -> int:
    """That the model makes: each chunk of a transfer begins with a frame of the one before, and makes all of its own.

    How many the control videos ask for is not known before they are seen: then one chunk is assumed.
    """
    frames, transfer = generation.num_frames, generation.transfer
    if transfer is None:
        assert frames is not None, "only control videos say it later"
        return frames
    if frames is None:
        return transfer.frames_per_chunk
    return transfer.chunks(frames) * min(frames, transfer.frames_per_chunk)


def narrowed(known: float, seconds_per_unit: float, in_flight: float, places: int) -> float:
    """What is known of a fully loaded worker's seconds for a unit, after a measure with so many jobs in flight.

    A worker that is not full could be faster, and at best as many times faster as it has places for each job in
    flight: so each measure bounds the pace from both sides, and a full worker's measure is the pace.

    >>> narrowed(0.3, seconds_per_unit=0.9, in_flight=1, places=256)  # a quiet hour says little
    0.3
    >>> narrowed(0.3, seconds_per_unit=0.08, in_flight=256, places=256)
    0.08
    """
    fastest = seconds_per_unit * min(1.0, in_flight / places)
    return min(max(known, fastest), seconds_per_unit)
