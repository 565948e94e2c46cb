"""A sampled clip as a file: its frames as they are, for an engine of ours; as MP4, for somebody else's server."""

import json
from fractions import Fraction
from io import BytesIO
from pathlib import Path

import av
import numpy as np

from cosmos_batch.media.frame_sampling import Clip

SUFFIX = ".clip"
# H.264 that nobody can tell from the source: what is lost here, the model does not see.
_ENCODING = {"crf": "12", "preset": "veryfast", "threads": "1"}


def write_clip(clip: Clip, path: Path) -> None:
    """Frames and metadata, uncompressed, in numpy's format for several arrays."""
    with path.open("wb") as file:
        np.savez(file, frames=clip.frames, metadata=np.array(json.dumps(clip.metadata)))


def read_clip(data: bytes) -> tuple[np.ndarray, dict[str, object]]:
    """Frames (RGB, uint8, [T, H, W, 3]) and the `video_metadata` of transformers' processors.

    Raises ValueError, KeyError or zipfile.BadZipFile where the bytes are no clip. No object of Python's is unpickled.
    """
    with np.load(BytesIO(data), allow_pickle=False) as arrays:
        return arrays["frames"], json.loads(str(arrays["metadata"]))


def as_mp4(clip: Clip) -> bytes:
    """The frames at their own rate, from 0 seconds on: the time between the first and the last is what it was.

    A single frame is there twice, for servers take no video of one.
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
