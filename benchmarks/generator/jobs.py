"""The jobs of the generator's benchmarks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from benchmarks.app.new_job import new_job
from cosmos_batch.catalogue.formats import Medium
from cosmos_batch.catalogue.generation import Size, tier_of
from cosmos_batch.catalogue.pipelines import pipeline_named
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.generation.serving import Serving
from cosmos_batch.contract.job import Job, OutputKey
from cosmos_batch.engines.generator.outputs import GeneratedMedia
from cosmos_batch.planning.generation.aliases import read_generation_parameters
from cosmos_batch.planning.generation.settling import settle

PIPELINE = "cosmos3-nano"
JOB_ID = "benchmark"


@dataclass(frozen=True)
class GeneratorWorkload:
    """One video from text.

    Attributes
    ----------
    shape
        `tiny` or `nano`.
    sizes
        Sizes that are generated with all accelerations.
    memory_sizes
        Sizes whose peak memory is measured.
    words
        Number of words of both prompts, which makes about 1,500 tokens.
    """

    shape: str
    sizes: tuple[str, ...]
    memory_sizes: tuple[str, ...]
    frames: int
    steps: int
    words: int
    guidance: float = 6.0
    seed: int = 1


TINY = GeneratorWorkload("tiny", ("64x48", "96x64"), ("64x48",), frames=9, steps=3, words=40)
NANO = GeneratorWorkload(
    "nano", ("320x192", "832x480"), ("320x192", "832x480", "1280x720"), frames=189, steps=35, words=370
)


_ROBOT: dict[str, Any] = {"domain_name": "bridge_orig_lerobot"}
_ROBOT_ACTIONS = [[0.1] * 10] * 16  # as many as the domain was trained with

KINDS: dict[str, dict[str, Any]] = {
    "t2v": {"mode": "t2v"},
    "t2i": {"mode": "t2i"},
    "i2v": {"mode": "i2v"},
    "v2v": {"mode": "v2v"},
    "sound": {"mode": "t2v", "sound": True},
    "transfer": {"mode": "transfer", "controls": {"edge": {}}},
    "forward_dynamics": {"mode": "forward_dynamics", "action": _ROBOT_ACTIONS, **_ROBOT},
    "inverse_dynamics": {"mode": "inverse_dynamics", **_ROBOT},
    "policy": {"mode": "policy", **_ROBOT},
}
"""Kinds of jobs, with the parameters of their requests. Those of a robot have 17 frames, whatever the workload has.

All kinds have the workload's steps and guidance, so that a step costs the same; by default an image has 50 steps, and a
job with actions has 30 and no guidance.
"""

MEDIA: dict[str, Medium] = {
    "i2v": "image",
    "v2v": "video",
    "transfer": "video",
    "forward_dynamics": "image",
    "inverse_dynamics": "video",
    "policy": "image",
}
"""What a job of a kind starts from, if it starts from a file."""


def words(workload: GeneratorWorkload, which: str = "so") -> str:
    """Return filler of the length of a prompt. Prompts with different first words have separate cache entries."""
    return " ".join([which, *(f"w{number}" for number in range(workload.words))])


def generation_for(workload: GeneratorWorkload, size: str, kind: str = "t2v") -> Generation:
    """Return the generation of a kind of `KINDS` as the plan function settles it."""
    width, height = sides(size)
    parameters = {
        **KINDS[kind],
        "negative_prompt": words(workload, "not"),
        "steps": workload.steps,
        "guidance_scale": workload.guidance,
        "seed": workload.seed,
    }
    if "domain_name" in parameters:
        parameters["resolution"] = tier_of(Size(width, height))
    else:
        parameters |= {"width": width, "height": height}
        if kind != "t2i":
            parameters |= {"num_frames": workload.frames, "fps": 24}
    pipeline = pipeline_named(PIPELINE)
    assert pipeline is not None
    serving = Serving(engine="diffusers", guardrails=False, max_resolution="720p", plans={})
    request = read_generation_parameters(parameters)
    return settle(request, words(workload), pipeline, MEDIA.get(kind), JOB_ID, serving)


def job_for(name: str, workload: GeneratorWorkload, size: str) -> Job:
    """Return the job of a video from text as a worker receives it, with `name` as its id."""
    generation, document = generation_for(workload, size), OutputKey(bucket="assets", key=f"videos/{name}.json")
    prompts = {"prompt": generation.prompt, "system_prompt": ""}
    return new_job(name, PIPELINE, document, input=None, generation=generation, **prompts)


@cache
def drawn_clip(size: str, frames: int) -> list[np.ndarray]:
    """Return the pictures of a smooth clip that moves, with a little grain: RGB, uint8, [H, W, 3]."""
    width, height = sides(size)
    rows, columns = np.mgrid[0:height, 0:width]
    grain = np.random.default_rng(0).integers(0, 6, (height, width, 1), np.uint8)
    return [
        np.stack([(rows + number) % 200, (columns + 2 * number) % 200, (rows + columns) // 8 % 200], 2).astype(np.uint8)
        + grain
        for number in range(frames)
    ]


def drawn_instead(media: GeneratedMedia, clip: Sequence[np.ndarray]) -> GeneratedMedia:
    """Return a generated video with the pictures of a drawn clip, each of which is there when the generated one is.

    Random weights make noise, which takes several times as long to encode as a real video.
    """
    return replace(media, frames=(drawn for drawn, _ in zip(clip, media.frames, strict=True)))


def sides(size: str) -> tuple[int, int]:
    """Return width and height of a size that is written as WIDTHxHEIGHT."""
    width, height = (int(side) for side in size.split("x"))
    return width, height
