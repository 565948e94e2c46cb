"""Small clips of 2 seconds to 10 minutes that differ from each other, for runs on a machine without a GPU."""

from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np

from benchmarks.simulation.clips import MIXED

WIDTH, HEIGHT, FPS = 256, 192, 4
_SQUARE = 24  # pixels


def write_mixed_clips(folder: Path, count: int, seed: int) -> dict[str, float]:
    """Write `count` MP4 clips, and return the length of each in seconds by its name."""
    folder.mkdir(parents=True)
    lengths = {f"{number:04}.mp4": clip.seconds for number, clip in enumerate(MIXED.clips(count, seed))}
    for number, (name, seconds) in enumerate(lengths.items()):
        _write(folder / name, seconds, np.random.default_rng((seed, number)))
    return lengths


def _write(path: Path, seconds: float, drawn: np.random.Generator) -> None:
    options = {"crf": "28", "preset": "ultrafast", "threads": "1"}
    with av.open(str(path), "w", format="mp4", options={"movflags": "faststart"}) as container:
        stream = container.add_stream("libx264", rate=FPS, options=options)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for frame in _frames(round(seconds * FPS), drawn):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())


def _frames(count: int, drawn: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield frames of a square that moves over a background; its color and the background's are drawn."""
    background, color = drawn.integers(0, 256, (2, 3), np.uint8)
    for number in range(count):
        frame = np.full((HEIGHT, WIDTH, 3), background, np.uint8)
        left = number * 2 % (WIDTH - _SQUARE)
        frame[_SQUARE : 2 * _SQUARE, left : left + _SQUARE] = color
        yield frame
