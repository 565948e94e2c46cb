"""Writes sampled clips: raw frames for an engine in this container, or an MP4 for a remote server."""

import json
from fractions import Fraction
from io import BytesIO
from pathlib import Path

import av
import numpy as np

from cosmos_batch.media.frame_sampling import Clip

SUFFIX = ".clip"
# At CRF 12 H.264 is visually lossless: details that it dropped would be missing from the model's input.
_ENCODING = {"crf": "12", "preset": "veryfast", "threads": "1"}


def write_clip(clip: Clip, path: Path) -> None:
    """Write frames and metadata uncompressed as a numpy .npz archive."""
    with path.open("wb") as file:
        np.savez(file, frames=clip.frames, metadata=np.array(json.dumps(clip.metadata)))


def read_clip(data: bytes) -> tuple[np.ndarray, dict[str, object]]:
    """Return the frames (RGB, uint8, [T, H, W, 3]) and the `video_metadata` of transformers' processors.

    Raises ValueError, KeyError or zipfile.BadZipFile where the bytes are no clip. Nothing is unpickled.
    """
    with np.load(BytesIO(data), allow_pickle=False) as arrays:
        return arrays["frames"], json.loads(str(arrays["metadata"]))


def as_mp4(clip: Clip) -> bytes:
    """Return the clip as an MP4 that starts at 0 s, with as much time between the first and the last frame as before.

    A single frame is written twice, because servers accept no video of one frame.
    """
    frames = clip.frames if len(clip.frames) > 1 else np.repeat(clip.frames, 2, axis=0)
    seconds = (clip.indices[-1] - clip.indices[0]) / clip.fps
    rate = Fraction((len(frames) - 1) / seconds if seconds > 0 else clip.fps).limit_denominator(1000)
    file = BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=rate, options=_ENCODING)
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = "yuv420p"
        for number, pixels in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
            frame.pts, frame.time_base = number, 1 / rate
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return file.getvalue()
