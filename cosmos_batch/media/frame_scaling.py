"""Scales the frames of a video for a reasoner."""

import av
import numpy as np
from av.video.reformatter import Interpolation, VideoReformatter

# FFmpeg's names of layouts whose colors have half of both resolutions, and of one whose colors have all of it.
_QUARTER_COLORS, _ALL_COLORS = ("yuv420p", "nv12"), "yuv444p"


class FrameScaler:
    """Scales frames to one size, as RGB.

    Most videos store colors at half of both resolutions (4:2:0). Such a frame is first scaled to the new size with
    colors of all of its resolution (4:4:4), and that is turned into RGB. In one step FFmpeg would halve the colors'
    horizontal resolution once more and round down, and takes longer (benchmarks/reasoner/scaling.py).

    Parameters
    ----------
    width, height
        The size in pixels.
    """

    def __init__(self, width: int, height: int) -> None:
        self._size = (width, height)
        self._scaler, self._to_rgb = VideoReformatter(), VideoReformatter()

    def pixels(self, frame: av.VideoFrame) -> np.ndarray:
        """Return the pixels of a frame, which may be in the GPU's memory: RGB, uint8, shape [H, W, 3]."""
        layout = (frame.sw_format or frame.format).name
        if layout in _QUARTER_COLORS and self._size != (frame.width, frame.height):
            frame = self._changed(self._scaler, frame, _ALL_COLORS)
        return _rows(self._changed(self._to_rgb, frame, "rgb24"))

    def _changed(self, reformatter: VideoReformatter, frame: av.VideoFrame, layout: str) -> av.VideoFrame:
        return reformatter.reformat(frame, *self._size, layout, interpolation=Interpolation.BICUBIC, threads=1)


def _rows(frame: av.VideoFrame) -> np.ndarray:
    """Return the pixels [H, W, 3] of a frame in `rgb24`, in the frame's own memory."""
    [plane] = frame.planes
    lines = np.frombuffer(memoryview(plane), np.uint8).reshape(frame.height, plane.line_size)
    return np.reshape(lines[:, : 3 * frame.width], (frame.height, frame.width, 3))
