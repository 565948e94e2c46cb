"""Reads an MP4 with FFmpeg and by its boxes, for tests of what writes MP4s."""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np


@dataclass(frozen=True)
class Mp4:
    """The properties of an MP4's picture and sound. Those of the sound are None if there is none."""

    codec: str
    profile: str
    pix_fmt: str
    width: int
    height: int
    frames: int
    fps: Fraction
    seconds: float
    colours: tuple[int, ...]
    boxes: list[str]
    sound: tuple[str, int, int] | None
    sound_seconds: float | None


def read_mp4(path: Path) -> Mp4:
    """Decode a file to its end and return its properties; `frames` counts the decoded frames."""
    with av.open(str(path)) as container:
        video = container.streams.video[0]
        context = video.codec_context
        audio = container.streams.audio[0] if container.streams.audio else None
        return Mp4(
            codec=context.name,
            profile=str(context.profile),
            pix_fmt=str(context.pix_fmt),
            width=context.width,
            height=context.height,
            fps=Fraction(video.average_rate or 0),
            seconds=float((video.duration or 0) * (video.time_base or 0)),
            colours=(context.colorspace, context.color_range, context.color_primaries, context.color_trc),
            sound=(audio.codec_context.name, audio.rate, audio.channels) if audio else None,
            sound_seconds=float((audio.duration or 0) * (audio.time_base or 0)) if audio else None,
            boxes=boxes(path),
            frames=sum(1 for _ in container.decode(video)),
        )


def boxes(path: Path) -> list[str]:
    """Return the names of an MP4's outermost boxes, in order."""
    data, names, at = path.read_bytes(), [], 0
    while at < len(data):
        names.append(data[at + 4 : at + 8].decode())
        at += int.from_bytes(data[at : at + 4], "big")
    assert at == len(data), "the last box ends with the file"
    return names


def pictures(path: Path) -> np.ndarray:
    """Return all frames as RGB, of shape [T, H, W, 3]."""
    with av.open(str(path)) as container:
        return np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])


def times(path: Path) -> list[float]:
    """Return the presentation times of all frames in seconds."""
    with av.open(str(path)) as container:
        return [float(frame.time or 0) for frame in container.decode(video=0)]


def heard(path: Path) -> np.ndarray:
    """Return all sound samples, of shape [channels, samples]."""
    with av.open(str(path)) as container:
        return np.concatenate([frame.to_ndarray() for frame in container.decode(audio=0)], axis=1)
