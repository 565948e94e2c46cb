"""Benchmark of scaling a camera's frames to RGB: in two steps, as `FrameScaler` does, and in FFmpeg's one.

CPU seconds of one thread, and how far the pixels are from those computed in floating-point numbers.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import av
import numpy as np
from av.video.reformatter import Interpolation, VideoReformatter
from PIL import Image

from benchmarks.measurement import Measurement
from benchmarks.reasoner.decoding import RUNS
from benchmarks.reasoner.large_clips import HEIGHT, WIDTH, make_large_clips
from cosmos_batch.media.frame_scaling import FrameScaler

FRAMES = 10
SIZES = ((1024, 576), (512, 288), (320, 192))  # those that a clip of 40 frames, and longer ones, are scaled to
SHARE = 0.95  # limit: the time relative to that of one step
# BT.601 in the limited range, which FFmpeg assumes of frames that name no colors.
_LIGHT, _COLOR = 255 / 219, 255 / 224


def measure() -> list[Measurement]:
    """Scale frames both ways in turn, after one pass that counts for neither."""
    with tempfile.TemporaryDirectory() as folder:
        [clip] = make_large_clips(Path(folder), 1)
        frames = first_frames(clip, FRAMES)
    return [_of(frames, *size) for size in SIZES]


def _of(frames: list[av.VideoFrame], width: int, height: int) -> Measurement:
    ways = {"two": FrameScaler(width, height).pixels, "one": in_one_step(width, height)}
    passes = [{name: _milliseconds(way, frames) for name, way in ways.items()} for _ in range(RUNS + 1)][1:]
    taken = {name: statistics.median(one[name] for one in passes) for name in ways}
    right = exact(frames[0], width, height)
    errors = {name: float(np.abs(way(frames[0]) - right).mean()) for name, way in ways.items()}
    share = taken["two"] / taken["one"]
    return Measurement(
        name=f"a frame of {WIDTH} x {HEIGHT}, scaled to {width} x {height} in RGB by way of 4:4:4",
        value=f"{taken['two']:.2f} ms of CPU, {share:.2f} of {taken['one']:.2f} ms in one step; values are off by "
        f"{errors['two']:.2f} of 255 in the mean, with that {errors['one']:.2f}",
        limit=f"at most {SHARE:g} of one step, and nearer",
        met=share <= SHARE and errors["two"] < errors["one"],
        raw={"milliseconds": passes, "errors": errors},
    )


def first_frames(clip: Path, count: int) -> list[av.VideoFrame]:
    """Return the first frames of a video, as its decoder gives them."""
    with av.open(str(clip)) as container:
        return list(islice(container.decode(video=0), count))


def in_one_step(width: int, height: int) -> Callable[[av.VideoFrame], np.ndarray]:
    """Return the function that scales a frame to RGB in one step of FFmpeg's."""
    reformatter = VideoReformatter()

    def pixels(frame: av.VideoFrame) -> np.ndarray:
        scaled = reformatter.reformat(frame, width, height, "rgb24", interpolation=Interpolation.BICUBIC, threads=1)
        return scaled.to_ndarray()

    return pixels


def exact(frame: av.VideoFrame, width: int, height: int) -> np.ndarray:
    """Return a frame in `yuv420p` as RGB at a size, computed in floating-point numbers.

    Colors are brought to the frame's own resolution (bilinear), turned into RGB, and scaled (bicubic, with
    antialiasing).
    """
    light, blue, red = (_resized(_values(plane), frame.width, frame.height, "BILINEAR") for plane in frame.planes)
    light, blue, red = (light - 16) * _LIGHT, (blue - 128) * _COLOR, (red - 128) * _COLOR
    colors = (light + 1.402 * red, light - 0.344136 * blue - 0.714136 * red, light + 1.772 * blue)
    return np.clip(np.stack([_resized(color, width, height, "BICUBIC") for color in colors], -1), 0, 255)


def _values(plane: av.video.plane.VideoPlane) -> np.ndarray:
    return np.frombuffer(memoryview(plane), np.uint8).reshape(plane.height, plane.line_size)[:, : plane.width]


def _resized(values: np.ndarray, width: int, height: int, way: str) -> np.ndarray:
    image = Image.fromarray(values.astype(np.float32))
    return np.asarray(image.resize((width, height), Image.Resampling[way]), np.float64)


def _milliseconds(scale: Callable[[av.VideoFrame], np.ndarray], frames: list[av.VideoFrame]) -> float:
    """Return the CPU time of scaling one frame."""
    began = time.process_time()
    for frame in frames:
        scale(frame)
    return (time.process_time() - began) / len(frames) * 1000
