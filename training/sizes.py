"""Sizes and frame rates of clips: those that the training draws, and others that are kept for the evaluation."""

import numpy as np

_ASPECTS = ((9, 16), (2, 3), (3, 4), (1, 1), (4, 3), (3, 2), (16, 9), (21, 9))
_ANY_ASPECT = 0.25  # share of sizes of an aspect ratio between the extremes, whichever
_SHORTEST, _LONGEST = 160, 640  # pixels of a side

HELD_OUT_SIZES = (
    (180, 320),
    (270, 480),
    (240, 360),
    (300, 400),
    (208, 272),
    (288, 288),
    (352, 288),
    (400, 300),
    (512, 384),
    (480, 270),
    (600, 340),
    (960, 540),
    (560, 240),
)
HELD_OUT_RATES = (9, 14, 20, 27)  # frames per second


def draw_size(random: np.random.Generator) -> tuple[int, int]:
    """Draw the width and height of a clip for the training: even numbers, and none of `HELD_OUT_SIZES`."""
    while True:
        size = _draw_any(random)
        if size not in HELD_OUT_SIZES:
            return size


def draw_held_out_size(random: np.random.Generator) -> tuple[int, int]:
    """Draw one of `HELD_OUT_SIZES`."""
    return HELD_OUT_SIZES[int(random.integers(len(HELD_OUT_SIZES)))]


def draw_rate(random: np.random.Generator) -> int:
    """Draw a frame rate for the training, in frames per second: none of `HELD_OUT_RATES`."""
    return int(random.choice([rate for rate in (*range(8, 31), 50, 60) if rate not in HELD_OUT_RATES]))


def draw_held_out_rate(random: np.random.Generator) -> int:
    """Draw one of `HELD_OUT_RATES`."""
    return HELD_OUT_RATES[int(random.integers(len(HELD_OUT_RATES)))]


def _draw_any(random: np.random.Generator) -> tuple[int, int]:
    aspects = [width / height for width, height in _ASPECTS]
    if random.random() < _ANY_ASPECT:
        aspect = float(np.exp(random.uniform(np.log(aspects[0]), np.log(aspects[-1]))))
    else:
        aspect = aspects[int(random.integers(len(aspects)))]
    shorter = float(random.uniform(_SHORTEST, min(480.0, _LONGEST / max(aspect, 1 / aspect))))
    return _even(shorter * max(1.0, aspect)), _even(shorter * max(1.0, 1 / aspect))


def _even(pixels: float) -> int:
    """Round to an even number, as yuv420p needs it."""
    return 2 * round(pixels / 2)
