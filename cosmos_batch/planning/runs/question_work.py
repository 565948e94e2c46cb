"""Estimate the work of one item: how much of a worker's time it takes, relative to a reference clip."""

from dataclasses import dataclass

from cosmos_batch.catalogue.formats import Medium
from cosmos_batch.catalogue.pipelines import REASONER_CONTEXT
from cosmos_batch.catalogue.seen_media import (
    DEFAULT_FPS,
    FRAMES_PER_TOKEN,
    LEAST_IMAGE_PIXELS,
    MAX_FRAMES,
    MOST_IMAGE_PIXELS,
    MOST_VIDEO_PIXELS,
    TOKEN_SIDE,
)
from cosmos_batch.contract.parameters import Parameters

# The clip by which `planning.pace` measures reasoners (docs/benchmarks.md): four seconds at 640 x 480, seen at 4 frames
# a second. This is the number of tokens that its media take.
REFERENCE_TOKENS = 2472.0
# What the answer costs, in tokens of media. NVIDIA's throughput of Nano is 1.94 times as high at 1 frame a second as at
# 2 (`inference_benchmarks/` of NVIDIA/cosmos, one H100, 256 in flight): all but a twentieth of the time goes to the
# media. Ours write longer answers.
ANSWER_TOKENS = 300.0

_PIXELS_PER_TOKEN = TOKEN_SIDE**2
# Before each two frames stands their time, as in `<12.5 seconds>`, which Qwen's tokenizer splits into seven tokens.
# There is a mark on either side of the frames (`Qwen3VLProcessor` of Transformers). This is the usual number, for an
# estimate; an engine leaves more room, because its prompt must fit (engines/reasoner/media_input.py).
_TIMESTAMP_TOKENS = 9
_MEDIA_TOKENS = 0.9 * REASONER_CONTEXT  # media are scaled to fit (media/pixel_budget.py)


@dataclass(frozen=True)
class ProbedMedia:
    """The facts about a probed file with which a run is planned. An image has a duration of 0."""

    medium: Medium
    width: int
    height: int
    seconds: float = 0.0


def media_tokens(facts: ProbedMedia, parameters: Parameters) -> float:
    """Return how many tokens a reasoner sees of a file, within the limits of its context.

    >>> media_tokens(ProbedMedia("video", 640, 480, 4.0), Parameters())
    2472.0
    >>> media_tokens(ProbedMedia("video", 128, 96, 4.0), Parameters())  # their times count for small frames
    168.0
    >>> media_tokens(ProbedMedia("video", 1920, 1080, 60.0), Parameters())  # 240 frames share the pixels of a video
    13368.0
    """
    pixels = facts.width * facts.height
    if facts.medium == "image":
        return min(max(pixels, LEAST_IMAGE_PIXELS), MOST_IMAGE_PIXELS) / _PIXELS_PER_TOKEN
    start = parameters.start or 0.0
    seconds = max(0.0, min(facts.seconds, parameters.end or facts.seconds) - start)
    frames = min(max(seconds * (parameters.fps or DEFAULT_FPS), FRAMES_PER_TOKEN), MAX_FRAMES)
    vision = min(frames * pixels, MOST_VIDEO_PIXELS) / FRAMES_PER_TOKEN / _PIXELS_PER_TOKEN
    return min(vision + frames / FRAMES_PER_TOKEN * _TIMESTAMP_TOKENS, _MEDIA_TOKENS)


def work_of_question(tokens: float) -> float:
    """Return the work of a question whose media take `tokens`; a question about the reference clip is 1."""
    return (ANSWER_TOKENS + tokens) / (ANSWER_TOKENS + REFERENCE_TOKENS)
