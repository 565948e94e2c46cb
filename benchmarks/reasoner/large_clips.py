"""Clips as cameras record them, for the reasoner's benchmark: H.264, 1920 x 1080, 30 frames per second, ten seconds."""

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path

import av
import numpy as np
from PIL import Image, ImageFilter

from benchmarks.reasoner.clips import missing

WIDTH, HEIGHT, FPS, SECONDS = 1920, 1080, 30, 10
PRESETS = ("superfast", "medium")
_STEP = 2  # pixels by which the picture moves between frames


def make_large_clips(folder: Path, count: int, preset: str = "superfast") -> list[Path]:
    """Return clips that differ, written with a preset of x264 unless they exist.

    A camera moves over a textured picture, with a sensor's noise.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"large-{number:04}.mp4" for number in range(count)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(_encode, missing(paths), repeat(preset)))
    return paths


def _encode(path: Path, preset: str) -> None:
    number = int(path.stem.removeprefix("large-"))
    random = np.random.default_rng(number)
    coarse = Image.fromarray(random.integers(0, 256, (HEIGHT // 8, WIDTH // 4, 3), np.uint8))
    scene = np.asarray(coarse.resize((2 * WIDTH, HEIGHT)).filter(ImageFilter.GaussianBlur(3)))
    grain = random.integers(0, 24, (HEIGHT, WIDTH + FPS * SECONDS, 3), np.uint8)
    with av.open(f"{path}.part", "w", format="mp4", options={"movflags": "faststart"}) as container:
        options = {"crf": "23", "preset": preset, "threads": "1"}
        stream = container.add_stream("libx264", rate=FPS, options=options)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for frame in range(FPS * SECONDS):
            seen = scene[:, frame * _STEP : frame * _STEP + WIDTH] // 2 + grain[:, frame : frame + WIDTH]
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(seen), format="rgb24")))
        container.mux(stream.encode())
    Path(f"{path}.part").rename(path)
