"""Frames of a video as a model sees them: sampled in time, scaled while they are decoded, never all in memory."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np
from av.container import InputContainer
from av.video.reformatter import Interpolation, VideoReformatter
from av.video.stream import VideoStream

from cosmos_batch.media.containers import decode, open_video
from cosmos_batch.media.fitting import PixelBudget, fit
from cosmos_batch.media.refusal import refuse
from cosmos_batch.media.time_limit import in_time
from cosmos_batch.media.timeline import Cut, Timeline

# A frame that comes this much later than the one that was wanted stands for a hole in the file.
_HOLE_SECONDS = 1.0
_CLOCK_ROUNDING = 1e-4  # seconds
_QUARTER_TURN = 90  # degrees
_NEAR_SECONDS = 2.0  # so much is decoded though nobody looks at it, for a leap would cost more


@dataclass(frozen=True)
class Clip:
    """The sampled frames of one video.

    Attributes
    ----------
    frames
        RGB, uint8, shape [T, H, W, 3].
    indices
        Index of each frame in the source, counted at the source's average rate: `index / fps` is its time in seconds,
        in a video of variable rate too.
    fps
        Average frames per second of the source.
    duration
        Seconds of the source.
    source_frames
        Frames of the source.
    note
        What a person should know of it: that it was sampled more sparsely than asked.
    """

    frames: np.ndarray
    indices: list[int]
    fps: float
    duration: float
    source_frames: int
    note: str | None = None

    @property
    def metadata(self) -> dict[str, object]:
        """The `video_metadata` of transformers' processors."""
        return {
            "fps": self.fps,
            "duration": self.duration,
            "total_num_frames": self.source_frames,
            "frames_indices": self.indices,
            "height": self.frames.shape[1],
            "width": self.frames.shape[2],
            "video_backend": "pyav",
        }


def sample_frames(
    path: Path,
    timeline: Timeline,
    fps: float,
    budget: PixelBudget,
    *,
    start: float | None = None,
    end: float | None = None,
    min_frames: int = 1,
    max_frames: int,
    may_thin: bool = True,
    check: Callable[[], None] = lambda: None,
) -> Clip:
    """Decode a probed video once and keep `fps` frames of each second, upright, within `budget`.

    The frames lie evenly between the first and the last, as those of transformers' Qwen3-VL processor do. A video that
    is too short for `min_frames` gives what it has; one too long for `max_frames` is sampled more sparsely.

    Parameters
    ----------
    path, timeline
        A file that `probe` accepted, and what it found.
    fps
        Frames per second of video.
    budget
        Pixels that the frames may have.
    start, end
        The part to look at, in seconds of the video; the whole by default. The frames keep the video's own times.
    may_thin
        Whether a video too long for `max_frames` may be sampled more sparsely, with a note; otherwise it is refused.
    check
        Called after each packet. What it raises ends the decoding.

    Raises
    ------
    Failure
        InvalidInput where the video cannot be decoded to its end or in time, begins after `start`, or may not be
        thinned.
    """
    cut = timeline.cut(start, end)
    note = _thinned(cut, fps, max_frames)
    if note and not may_thin:
        raise refuse(note, "Lower fps, choose a shorter part by start and end, or set longVideo to 'sampleDown'.")
    wanted = sample_times(cut, fps, min_frames, max_frames)
    check = in_time(check)
    try:
        pixels = _see(path, timeline, wanted, budget, check, leaping=True)
    except _Missed:
        pixels = _see(path, timeline, wanted, budget, check, leaping=False)
    indices = [round(seconds * timeline.fps) for seconds in wanted]
    return Clip(pixels, indices, timeline.fps, timeline.duration, len(timeline.times), note)


def sample_times(cut: Cut, fps: float, min_frames: int, max_frames: int) -> list[float]:
    """The presentation times of the frames to keep, in seconds from the video's first; ascending, none twice."""
    count = min(max(_asked(cut, fps), min_frames, 1), max_frames, len(cut.times))
    even = np.linspace(cut.times[0], cut.times[-1], count)
    between = (cut.times[1:] + cut.times[:-1]) / 2
    nearest = np.unique(np.searchsorted(between, even))
    return [float(seconds) for seconds in cut.times[nearest]]


def _asked(cut: Cut, fps: float) -> int:
    return int(cut.duration * fps + _CLOCK_ROUNDING)


def _thinned(cut: Cut, fps: float, max_frames: int) -> str | None:
    """That the rate cannot be kept, if so. A video that has fewer frames than asked is seen whole."""
    if min(_asked(cut, fps), len(cut.times)) <= max_frames:
        return None
    return (
        f"{cut.duration:.1f} s of video at {fps:g} frames a second are more than the {max_frames} frames that the "
        f"model can take with this question: {max_frames / cut.duration:.3g} a second fit."
    )


class _Missed(Exception):  # noqa: N818 - no fault of the file's
    """After a leap the frame that was wanted did not come."""


def _see(
    path: Path, timeline: Timeline, wanted: list[float], budget: PixelBudget, check: Callable[[], None], leaping: bool
) -> np.ndarray:
    with open_video(path) as (container, stream):
        frames = pick(container, stream, timeline, wanted, check, leaping)
        return np.stack(list(_scale(frames, len(wanted), budget)))


def pick(
    container: InputContainer,
    stream: VideoStream,
    timeline: Timeline,
    wanted: list[float],
    check: Callable[[], None],
    leaping: bool,
) -> Iterator[av.VideoFrame]:
    """For each wanted time the first frame shown then or later.

    To the first one it leaps by the container's index; to the others, if `leaping`, where key frames lie between. It
    raises _Missed where that leads anywhere but to the very frame: not every index and key frame is what it says.
    """
    decoded, at = decode(container, stream, check), 0.0
    for seconds in wanted:
        key = timeline.key_before(seconds)
        leaps = key > at + _NEAR_SECONDS and (leaping or seconds == wanted[0])
        if leaps:
            _leap(container, stream, timeline.start + key)
            decoded = decode(container, stream, check)
        frame = next((one for one in decoded if _time(one, timeline) >= seconds - _CLOCK_ROUNDING), None)
        if leaps and leaping and (frame is None or _time(frame, timeline) > seconds + _CLOCK_ROUNDING):
            raise _Missed
        if frame is None or _time(frame, timeline) > seconds + _HOLE_SECONDS:
            raise refuse(f"The video is damaged: it cannot be decoded at {seconds:.1f} s of {timeline.duration:.1f} s.")
        at = _time(frame, timeline)
        yield frame


def _leap(container: InputContainer, stream: VideoStream, seconds: float) -> None:
    """Go to the key frame at a time, in seconds of the container's clock; it stays where it is if that cannot be."""
    if stream.time_base is not None:
        with suppress(av.FFmpegError):
            container.seek(round(seconds / stream.time_base), stream=stream)


def _time(frame: av.VideoFrame, timeline: Timeline) -> float:
    return (frame.time or 0.0) - timeline.start


def _scale(frames: Iterator[av.VideoFrame], count: int, budget: PixelBudget) -> Iterator[np.ndarray]:
    """RGB of `count` frames at the size that fits them all, turned as the first one's display matrix says.

    Phones store portrait video on its side. Size and turn are decided once: streams may change both on their way.
    """
    scaler = VideoReformatter()
    shape: tuple[int, int, int] | None = None
    for frame in frames:
        shape = shape or (*fit(frame.width, frame.height, count, budget), frame.rotation // _QUARTER_TURN)
        width, height, turns = shape
        scaled = scaler.reformat(frame, width, height, "rgb24", interpolation=Interpolation.BICUBIC, threads=1)
        yield np.rot90(scaled.to_ndarray(), turns)
