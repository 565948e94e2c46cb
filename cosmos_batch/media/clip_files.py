"""A sampled clip as a file, for an engine in another process: its frames as they are, not encoded a second time."""

import json
from io import BytesIO
from pathlib import Path

import numpy as np

from cosmos_batch.media.frames import Clip

SUFFIX = ".clip"


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
