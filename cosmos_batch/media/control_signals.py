"""Computes the control signals that need no model of their own: the edges of a video, and a blurred version of it.

Both are the same pixels as Cosmos Framework computes for inference, on which the model was trained:
`AddControlInputEdge` and `AddControlInputBlur` of
`cosmos_framework/data/generator/augmentors/transfer_control_input/control_input.py` and the bilateral filter of
`blur.py` beside it, NVIDIA/cosmos-framework at 5eee9ed.
"""

from typing import NamedTuple

import cv2
import numpy as np

from cosmos_batch.catalogue.generation import Strength

# Lower and upper threshold of Canny's hysteresis, in sums of absolute Sobel derivatives. Higher ones keep fewer edges.
EDGE_THRESHOLDS: dict[Strength, tuple[int, int]] = {
    "very_low": (20, 50),
    "low": (50, 100),
    "medium": (100, 200),
    "high": (200, 300),
    "very_high": (300, 400),
}


class _Shrinking(NamedTuple):
    """The two factors by which a frame is shrunk for the bilateral filter, and once more after it."""

    filtered: int
    final: int


_SHRINKING: dict[Strength, _Shrinking] = {
    "very_low": _Shrinking(1, 4),
    "low": _Shrinking(4, 4),
    "medium": _Shrinking(2, 10),
    "high": _Shrinking(1, 16),
    "very_high": _Shrinking(4, 16),
}
# Parameters of the bilateral filter for a frame whose longer side is 720 pixels; they are scaled for other sizes.
_REFERENCE_SIDE = 720
_DIAMETER, _SIGMA_COLOUR, _SIGMA_SPACE = 30, 150, 100


def edges(frame: np.ndarray, strength: Strength = "medium") -> np.ndarray:
    """Return the edges of a frame (RGB, uint8, [H, W, 3]) in white on black, in the same shape.

    It is OpenCV's Canny on the three channels: at each pixel the channel with the largest derivative counts.
    """
    mask = cv2.Canny(np.ascontiguousarray(frame), *EDGE_THRESHOLDS[strength])
    return np.repeat(mask[:, :, None], 3, axis=2)


def blurred(frame: np.ndarray, strength: Strength = "medium") -> np.ndarray:
    """Return a frame (RGB, uint8, [H, W, 3]) without its details, in the same shape.

    The bilateral filter keeps the edges between very different colours; shrinking and enlarging then softens those too.
    At 1280 x 720 the filter takes a second of one core for each frame.
    """
    height, width, _ = frame.shape
    shrinking = _SHRINKING[strength]
    small = _filtered(_resized(frame, width // shrinking.filtered, height // shrinking.filtered, cv2.INTER_AREA))
    full = _resized(small, width, height, cv2.INTER_LINEAR)
    coarse = _resized(full, width // shrinking.final, height // shrinking.final, cv2.INTER_CUBIC)
    return _resized(coarse, width, height, cv2.INTER_CUBIC)


def _filtered(frame: np.ndarray) -> np.ndarray:
    scale = max(frame.shape[:2]) / _REFERENCE_SIDE
    diameter = max(1, round(_DIAMETER * scale)) | 1  # odd, so that the filter has a center pixel
    return cv2.bilateralFilter(frame, diameter, max(1.0, _SIGMA_COLOUR * scale), max(1.0, _SIGMA_SPACE * scale))


def _resized(frame: np.ndarray, width: int, height: int, interpolation: int) -> np.ndarray:
    size = (max(1, width), max(1, height))
    return cv2.resize(np.ascontiguousarray(frame), size, interpolation=interpolation)
