"""Sample media for the demo: a clip and an image of the world that the demo model knows."""

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from PIL import Image

from cosmos_batch.demo.drawing import draw_frames
from cosmos_batch.demo.scenes import Movement, Scene, Thing

WIDTH, HEIGHT = 320, 240  # pixels
FPS = 12
SECONDS = 4

SAMPLE = Scene(
    width=WIDTH / HEIGHT,
    height=1.0,
    duration=SECONDS,
    things=(
        Thing("circle", "red", 0.13, 0.25, 0.62, Movement("right", 0.5, 2.0, 0.5)),
        Thing("square", "blue", 0.12, 1.1, 0.3, Movement("fall", 2.5, 3.5, 0.592)),
    ),
    background="gradient",
    tones=((235, 235, 235), (190, 205, 225)),
    grain=0.0,
    vertical=True,
    seed=0,
)
"""A red circle moves to the right, then a blue square falls to the ground."""


def write_clip(scene: Scene, path: Path, width: int, height: int, fps: int) -> Path:
    """Encode a scene as MP4 (H.264, yuv420p), `fps` frames a second. Returns `path`."""
    times = np.arange(int(scene.duration * fps)) / fps
    with av.open(str(path), "w", format="mp4", options={"movflags": "faststart"}) as container:
        stream = container.add_stream("libx264", rate=Fraction(fps), options={"crf": "20", "threads": "1"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for frame in draw_frames(scene, times, width, height):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())
    return path


def write_image(scene: Scene, path: Path, width: int, height: int, seconds: float = 0.0) -> Path:
    """Write a scene at one time as an image, in the format of the path's extension. Returns `path`."""
    Image.fromarray(draw_frames(scene, np.array([seconds]), width, height)[0]).save(path)
    return path


def sample_clip(path: Path) -> Path:
    """Write the sample clip: four seconds of MP4, 12 frames a second, about 20 KB. Returns `path`."""
    return write_clip(SAMPLE, path, WIDTH, HEIGHT, FPS)


def sample_image(path: Path) -> Path:
    """Write the first frame of the sample clip as an image. Returns `path`."""
    return write_image(SAMPLE, path, WIDTH, HEIGHT)
