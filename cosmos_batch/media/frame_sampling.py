"""Frames of a video as a model sees them: sampled in time, scaled while they are decoded, never all in memory."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import av
import numpy as np
from av.container import InputContainer
from av.video.reformatter import Interpolation, VideoReformatter
from av.video.stream import VideoStream

from cosmos_batch.media.containers import decode, open_video, with_time_limit
from cosmos_batch.media.errors import unusable_file
from cosmos_batch.media.pixel_budget import PixelBudget, fit
from cosmos_batch.media.timeline import Cut, Timeline

# A frame that comes this much later than the one that was wanted stands for a hole in the file.
_HOLE_SECONDS = 1.0
_CLOCK_ROUNDING = 1e-4  # seconds
_QUARTER_TURN = 90  # degrees
_MISSING_SECONDS = 0.2  # a gap that is so much longer than the file's own holds frames that could not be decoded
_HOLES_TOLD = 5
_TOLD_LEAP_SECONDS = 1.0
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
    notes
        What a person should know of it: that it was sampled more sparsely than asked, is damaged between the frames
        that are kept, or was not decoded in parts.
    """

    frames: np.ndarray
    indices: list[int]
    fps: float
    duration: float
    source_frames: int
    notes: tuple[str, ...] = ()

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
    thinned = _thinned(cut, fps, max_frames)
    if thinned and not may_thin:
        raise unusable_file(
            thinned, "Lower fps, choose a shorter part by start and end, or set longVideo to 'sampleDown'."
        )
    wanted = sample_times(cut, fps, min_frames, max_frames)
    check = with_time_limit(check)
    try:
        pixels, walk = _see(path, timeline, wanted, budget, check, leaping=True)
    except _Missed:
        pixels, walk = _see(path, timeline, wanted, budget, check, leaping=False)
    indices = [round(seconds * timeline.fps) for seconds in wanted]
    notes = tuple(note for note in (thinned, *walk.notes(timeline)) if note)
    return Clip(pixels, indices, timeline.fps, timeline.duration, len(timeline.times), notes)


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


@dataclass
class Walk:
    """What was decoded of a video on the way to the frames that were wanted.

    Attributes
    ----------
    stretches
        Of each part that was decoded without a leap: when its frames are shown, in seconds from the video's first. The
        first part begins at 0, whichever frame comes first.
    leapt
        Seconds that were passed over without decoding.
    """

    stretches: list[list[float]] = field(default_factory=lambda: [[0.0]])
    leapt: float = 0.0

    def leap(self, passed: float) -> None:
        """Note that decoding goes on later, and how many seconds of what is looked at it passes over.

        Where the next stretch begins only its first frame tells: not every key frame is what its container says.
        """
        self.leapt += passed
        self.stretches.append([])

    def through(self, frames: Iterator[av.VideoFrame], timeline: Timeline) -> Iterator[av.VideoFrame]:
        """The same frames, noted as they come."""
        stretch = self.stretches[-1]
        for frame in frames:
            stretch.append(_time(frame, timeline))
            yield frame

    def notes(self, timeline: Timeline) -> list[str]:
        """What a reader must know: whether the video is whole must not depend on which frames were wanted."""
        notes = []
        if holes := [hole for stretch in self.stretches for hole in _holes(stretch, timeline)]:
            places = ", ".join(f"{seconds:.1f} s" for seconds in holes[:_HOLES_TOLD])
            more = f" and {len(holes) - _HOLES_TOLD} more" if len(holes) > _HOLES_TOLD else ""
            notes.append(f"The video is damaged: frames after {places}{more} cannot be decoded, and were not seen.")
        if self.leapt >= _TOLD_LEAP_SECONDS:
            notes.append(
                f"{self.leapt:.0f} s of the video, between the frames that were seen, were not decoded: if they are "
                "damaged, that was not noticed."
            )
        return notes


def _holes(decoded: list[float], timeline: Timeline) -> list[float]:
    """After which of the decoded frames others are missing, for longer than those of the file are apart.

    They are put in order first: frames of an AVI may come with each other's times.
    """
    found = []
    for before, after in pairwise(sorted(decoded)):
        first = int(np.searchsorted(timeline.times, before + _CLOCK_ROUNDING))
        beyond = int(np.searchsorted(timeline.times, after - _CLOCK_ROUNDING))
        if first < beyond:
            longest = float(np.max(np.diff([before, *timeline.times[first:beyond], after])))
            if after - before > longest + _MISSING_SECONDS:
                found.append(before)
    return found


class _Missed(Exception):  # noqa: N818 - no fault of the file's
    """After a leap the frame that was wanted did not come."""


def _see(
    path: Path, timeline: Timeline, wanted: list[float], budget: PixelBudget, check: Callable[[], None], leaping: bool
) -> tuple[np.ndarray, Walk]:
    walk = Walk()
    with open_video(path) as (container, stream):
        frames = decode_at_times(container, stream, timeline, wanted, check, leaping, walk)
        return np.stack(list(_scale(frames, len(wanted), budget))), walk


def decode_at_times(
    container: InputContainer,
    stream: VideoStream,
    timeline: Timeline,
    wanted: list[float],
    check: Callable[[], None],
    leaping: bool,
    walk: Walk | None = None,
) -> Iterator[av.VideoFrame]:
    """For each wanted time the first frame shown then or later.

    To the first one it leaps by the container's index; to the others, if `leaping`, where key frames lie between. It
    raises _Missed where that leads anywhere but to the very frame: not every index and key frame is what it says.
    `walk` is told what is decoded on the way.
    """
    walk = Walk() if walk is None else walk
    decoded, at = walk.through(decode(container, stream, check), timeline), 0.0
    for seconds in wanted:
        key = timeline.key_before(seconds)
        leaps = key > at + _NEAR_SECONDS and (leaping or seconds == wanted[0])
        if leaps:
            _leap(container, stream, timeline.start + key)
            walk.leap(0.0 if seconds == wanted[0] else key - timeline.after(at))
            decoded = walk.through(decode(container, stream, check), timeline)
        frame = next((one for one in decoded if _time(one, timeline) >= seconds - _CLOCK_ROUNDING), None)
        if leaps and leaping and (frame is None or _time(frame, timeline) > seconds + _CLOCK_ROUNDING):
            raise _Missed
        if frame is None or _time(frame, timeline) > seconds + _HOLE_SECONDS:
            raise unusable_file(
                f"The video is damaged: it cannot be decoded at {seconds:.1f} s of {timeline.duration:.1f} s."
            )
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
