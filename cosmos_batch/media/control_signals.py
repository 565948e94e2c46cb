"""Control signals that need no model of their own: the edges of a video, and a blurred version of it.

Both are what Cosmos Framework makes when it infers, since the model was trained on such: `AddControlInputEdge` and
`AddControlInputBlur` of `cosmos_framework/data/generator/augmentors/transfer_control_input/control_input.py` and the
bilateral filter of `blur.py` beside it, NVIDIA/cosmos-framework at 5eee9ed, with which the pixels agree.
"""

from typing import NamedTuple

import cv2
import numpy as np

from cosmos_batch.catalogue.generation import Strength

# Of Canny's hysteresis, in sums of absolute derivatives by Sobel: a stronger preset keeps fewer edges.
EDGE_THRESHOLDS: dict[Strength, tuple[int, int]] = {
    "very_low": (20, 50),
    "low": (50, 100),
    "medium": (100, 200),
    "high": (200, 300),
    "very_high": (300, 400),
}


class _Shrinking(NamedTuple):
    """By how much a frame is shrunk while it is filtered, and once more afterwards."""

    filtered: int
    final: int


_SHRINKING: dict[Strength, _Shrinking] = {
    "very_low": _Shrinking(1, 4),
    "low": _Shrinking(4, 4),
    "medium": _Shrinking(2, 10),
    "high": _Shrinking(1, 16),
    "very_high": _Shrinking(4, 16),
}
# Of the bilateral filter, for a frame whose longer side is 720 pixels; in proportion for others.
_REFERENCE_SIDE = 720
_DIAMETER, _SIGMA_COLOUR, _SIGMA_SPACE = 30, 150, 100


def edges(frame: np.ndarray, strength: Strength = "medium") -> np.ndarray:
    """Edges of a frame (RGB, uint8, [H, W, 3]) in white on black, in the same shape.

    Canny of OpenCV on the colours: of the three derivatives at a pixel the largest counts.
    """
    found = cv2.Canny(np.ascontiguousarray(frame), *EDGE_THRESHOLDS[strength])
    return np.repeat(found[:, :, None], 3, axis=2)


def blurred(frame: np.ndarray, strength: Strength = "medium") -> np.ndarray:
    """A frame (RGB, uint8, [H, W, 3]) without its details, in the same shape.

    Where colours differ much the bilateral filter keeps the border, until shrinking and enlarging softens all.
    A filter this wide takes the time of many frames of video: a second of one core at 1280 x 720.
    """
    height, width, _ = frame.shape
    shrinking = _SHRINKING[strength]
    small = _filtered(_resized(frame, width // shrinking.filtered, height // shrinking.filtered, cv2.INTER_AREA))
    full = _resized(small, width, height, cv2.INTER_LINEAR)
    coarse = _resized(full, width // shrinking.final, height // shrinking.final, cv2.INTER_CUBIC)
    return _resized(coarse, width, height, cv2.INTER_CUBIC)


def _filtered(frame: np.ndarray) -> np.ndarray:
    scale = max(frame.shape[:2]) / _REFERENCE_SIDE
    diameter = max(1, round(_DIAMETER * scale)) | 1  # odd, so that it has a centre
    return cv2.bilateralFilter(frame, diameter, max(1.0, _SIGMA_COLOUR * scale), max(1.0, _SIGMA_SPACE * scale))


def _resized(frame: np.ndarray, width: int, height: int, interpolation: int) -> np.ndarray:
    size = (max(1, width), max(1, height))
    return cv2.resize(np.ascontiguousarray(frame), size, interpolation=interpolation)
