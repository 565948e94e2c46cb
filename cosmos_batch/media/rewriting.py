"""Rewrites a video file that an engine's own library wrote, in the form in which all videos are delivered.

Files of those libraries have a frame rate that is cut to a whole number, the index at the end, or sound that is longer
than the picture.
"""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from cosmos_batch.media.decoding import open_video
from cosmos_batch.media.errors import as_output_failure, unusable_output
from cosmos_batch.media.frame_cropping import first_frame_times, frames_at_size
from cosmos_batch.media.probing import VideoInfo, probe, upright_size
from cosmos_batch.media.sound import RATE, Sound
from cosmos_batch.media.writing import write_video


def rewrite_video(
    source: Path, target: Path, fps: Fraction, *, sound: bool, check: Callable[[], None] = lambda: None
) -> None:
    """Write every frame of an engine's file to `target` at exactly `fps`, with its sound if `sound`.

    Size and length are not checked here; `check_video` does so. Raises Failure (EngineFailed) where it is no video.
    """
    with as_output_failure("video"):
        info = probe(source)
        if not isinstance(info, VideoInfo):
            raise unusable_output("an image; a video was asked for")
        times = first_frame_times(info.timeline, len(info.timeline.times))
        frames = frames_at_size(source, info.timeline, times, upright_size(source))
        write_video(target, frames, fps, read_sound(source) if sound else None, check)


def read_sound(path: Path) -> Sound | None:
    """Return the first audio stream of a video as stereo at 48 kHz; None if it has none."""
    resampler = av.AudioResampler("fltp", "stereo", RATE)
    with open_video(path) as (container, _):
        if not container.streams.audio:
            return None
        try:
            pieces = [part.to_ndarray() for frame in container.decode(audio=0) for part in resampler.resample(frame)]
            pieces += [part.to_ndarray() for part in resampler.resample(None)]
        except av.FFmpegError as error:
            raise unusable_output(f"sound that cannot be decoded ({error.strerror})") from error
    return Sound(np.concatenate(pieces, axis=1)) if pieces else None
