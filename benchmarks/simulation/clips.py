"""The clips of a simulated run, and how long an engine takes for each: by measurements, and not by the plan's formula.

Two measurements are combined. Ours says what a clip of four seconds takes in a full batch of an H100 (2,598 tokens,
docs/benchmarks.md). NVIDIA's table of Cosmos3-Nano on an H100, 256 in flight, says how that grows: at 1 and 2 frames a
second 17.38 and 8.46 requests a second with one token of answer, 12.83 and 6.60 with a hundred. So twice the frames
take 2.05 times as long, and the answer takes a quarter of the time of the shorter clip.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from cosmos_batch.contract.parameters import Parameters
from cosmos_batch.planning.runs.question_work import ProbedMedia, media_tokens

MEASURED_TOKENS = 2598.0
_GROWTH = math.log2(17.38 / 8.46)
_ANSWER_SHARE = 1 - 12.83 / 17.38
_SIZES = ((640, 480), (1280, 720), (1920, 1080))


@dataclass(frozen=True)
class ClipLengths:
    """A kind of clips: the shortest and the longest in seconds, between which their logarithms are spread evenly."""

    shortest: float
    longest: float

    def clips(self, count: int, seed: int) -> Iterator[ProbedMedia]:
        """Yield clips, one after another; the same seed makes the same ones."""
        drawn = random.Random(seed)
        low, high = math.log(self.shortest), math.log(self.longest)
        for _ in range(count):
            width, height = drawn.choice(_SIZES)
            yield ProbedMedia("video", width, height, math.exp(drawn.uniform(low, high)))


MIXED, SHORT = ClipLengths(2, 600), ClipLengths(2, 60)


def tokens_of(clip: ProbedMedia) -> float:
    """Return how many tokens the engine sees of a clip."""
    return media_tokens(clip, Parameters())


def engine_units(clips: Iterator[ProbedMedia], seed: int, spread: float) -> Iterator[float]:
    """Yield how long each clip takes in a full batch, in units of the clip that was measured.

    `spread` is the standard deviation of the logarithm of a factor, because answers differ in length.
    """
    drawn = random.Random(seed)
    for clip in clips:
        media = (tokens_of(clip) / MEASURED_TOKENS) ** _GROWTH
        # The mean of the factor is 1, so that the spread makes the whole neither longer nor shorter.
        factor = drawn.lognormvariate(-spread * spread / 2, spread)
        yield (_ANSWER_SHARE + (1 - _ANSWER_SHARE) * media) * factor
