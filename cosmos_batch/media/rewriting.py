"""A video that an engine wrote itself, written as all of ours are.

Engines' own files are truncated to a whole rate, have their index at the end, or sound that goes on after the picture.
"""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from cosmos_batch.media.containers import open_video
from cosmos_batch.media.errors import as_output_failure, unusable_output
from cosmos_batch.media.frame_cropping import first_frame_times, frames_at_size
from cosmos_batch.media.probing import VideoInfo, probe, upright_size
from cosmos_batch.media.sound import RATE, Sound
from cosmos_batch.media.writing import write_video


def rewrite_video(
    source: Path, target: Path, fps: Fraction, *, sound: bool, check: Callable[[], None] = lambda: None
) -> None:
    """Every frame of an engine's file, at the rate that was asked for, and its sound if that is wanted.

    What was asked for is not looked at: `check_video` does so. Raises Failure (EngineFailed) where it is no video.
    """
    with as_output_failure("video"):
        found = probe(source)
        if not isinstance(found, VideoInfo):
            raise unusable_output("an image; a video was asked for")
        times = first_frame_times(found.timeline, len(found.timeline.times))
        frames = frames_at_size(source, found.timeline, times, upright_size(source))
        write_video(target, frames, fps, read_sound(source) if sound else None, check)


def read_sound(path: Path) -> Sound | None:
    """The first sound of a video, as many channels as two; None where it has none."""
    resampler = av.AudioResampler("fltp", "stereo", RATE)
    with open_video(path) as (container, _):
        if not container.streams.audio:
            return None
        try:
            pieces = [one.to_ndarray() for frame in container.decode(audio=0) for one in resampler.resample(frame)]
            pieces += [one.to_ndarray() for one in resampler.resample(None)]
        except av.FFmpegError as error:
            raise unusable_output(f"sound that cannot be decoded ({error.strerror})") from error
    return Sound(np.concatenate(pieces, axis=1)) if pieces else None
