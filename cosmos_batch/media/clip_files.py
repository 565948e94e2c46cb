"""Writes sampled clips: raw frames for an engine in this container, or an MP4 for a remote server.

A file of raw frames is a length of eight bytes, a JSON object of that length (`shape` and `metadata`), and the bytes of
the frames. It is read without a copy and without a checksum, because both would cost more than the decoding of a clip.
"""

import hashlib
import json
import struct
from fractions import Fraction
from io import BytesIO
from pathlib import Path

import av
import numpy as np

from cosmos_batch.media.frame_sampling import Clip

SUFFIX = ".clip"
# The frame rate of a clip is rounded to a fraction whose denominator is at most this. The longest video has a day, so
# two of its frames can be 86,400 seconds apart.
_LARGEST_DENOMINATOR = 100_000
_LENGTH = struct.Struct("<Q")
# At CRF 12 H.264 is visually lossless: details that it dropped would be missing from the model's input.
_ENCODING = {"crf": "12", "preset": "veryfast", "threads": "1"}


def write_clip(clip: Clip, path: Path) -> str:
    """Write frames and metadata uncompressed, and return a digest of both."""
    frames = np.ascontiguousarray(clip.frames)
    header = json.dumps({"shape": frames.shape, "metadata": clip.metadata}).encode()
    digest = hashlib.sha256(header)
    digest.update(frames.data)
    with path.open("wb") as file:
        file.write(_LENGTH.pack(len(header)) + header)
        file.write(frames.data)
    return digest.hexdigest()


def read_clip(data: bytes) -> tuple[np.ndarray, dict[str, object]]:
    """Return the frames (RGB, uint8, [T, H, W, 3]) and the `video_metadata` of transformers' processors.

    The frames are a view of the bytes. Raises ValueError, KeyError or struct.error where the bytes are no clip.
    """
    (length,) = _LENGTH.unpack_from(data)
    start = _LENGTH.size + length
    header = json.loads(data[_LENGTH.size : start])
    return np.frombuffer(data, np.uint8, offset=start).reshape(header["shape"]), header["metadata"]


def as_mp4(clip: Clip) -> bytes:
    """Return the clip as an MP4 that starts at 0 s, with as much time between the first and the last frame as before.

    A single frame is written twice, because servers accept no video of one frame.
    """
    frames = clip.frames if len(clip.frames) > 1 else np.repeat(clip.frames, 2, axis=0)
    seconds = (clip.indices[-1] - clip.indices[0]) / clip.fps
    rate = Fraction((len(frames) - 1) / seconds if seconds > 0 else clip.fps).limit_denominator(_LARGEST_DENOMINATOR)
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
