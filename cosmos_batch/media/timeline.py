"""Reads when each frame of a video is presented, in one pass over its packets and without decoding."""

from dataclasses import dataclass
from fractions import Fraction

import av
import numpy as np
from av.container import InputContainer
from av.video.stream import VideoStream

from cosmos_batch.media.decoding import with_time_limit
from cosmos_batch.media.errors import unusable_file

CLOCK_ROUNDING = 1e-4  # seconds by which two times of one frame may differ
# Nine hours at 60 frames a second. It bounds the memory of a timeline, and the time that a hostile file can cost.
FRAME_LIMIT = 2_000_000
DURATION_LIMIT = 24 * 3600  # seconds: a camera's day
# A video may be this much shorter than its header says: containers round times, and the last few frames may be missing.
_TOLERATED_SECONDS = 0.5
_TOLERATED_SHARE = 0.05


@dataclass(frozen=True)
class Cut:
    """A part of a timeline: the times of its frames, in seconds from the video's first frame, and its length."""

    times: np.ndarray
    duration: float


@dataclass(frozen=True)
class Timeline:
    """The presentation times of a video stream's frames.

    Attributes
    ----------
    times
        Seconds from the first frame to each, ascending. Shape [frames].
    keys
        The times among them of key frames, at which decoding can begin.
    start
        Presentation time of the first frame in the container's clock, in seconds.
    duration
        Seconds from the first frame to the end of the last.
    reorder_depth
        By how many frames the order of decoding differs from that of presentation: how many have been decoded when the
        first one can be presented, without that one.
    """

    times: np.ndarray
    keys: np.ndarray
    start: float
    duration: float
    reorder_depth: int = 0

    @property
    def fps(self) -> float:
        """Return the average number of frames per second."""
        return len(self.times) / self.duration

    def seconds_of(self, frame: av.VideoFrame) -> float:
        """Return when a decoded frame is presented, in seconds from the first frame of the video."""
        return (frame.time or 0.0) - self.start

    def key_before(self, seconds: float) -> float:
        """Return the time of the last key frame at `seconds` or earlier; 0 if there is none."""
        count = int(np.searchsorted(self.keys, seconds, "right"))
        return float(self.keys[count - 1]) if count else 0.0

    def after(self, seconds: float) -> float:
        """Return the time of the first frame after `seconds`; the duration if there is none."""
        following = int(np.searchsorted(self.times, seconds, "right"))
        return float(self.times[following]) if following < len(self.times) else self.duration

    def cut(self, start: float | None, end: float | None) -> "Cut":
        """Return the part from `start` to `end`, in seconds. None is the video's beginning or end.

        An `end` behind the video's end is cut to it. Raises Failure (InvalidInput) where `start` is behind it.
        """
        first, last = start or 0.0, min(end or self.duration, self.duration)
        if first >= self.duration:
            raise unusable_file(
                f"start: {first:g} s is not in the video, which is {self.duration:.1f} s long.",
                "Begin earlier, or leave start and end out to look at the whole.",
            )
        shown = max(0, int(np.searchsorted(self.times, first, "right")) - 1)  # the frame on the screen at `first`
        beyond = int(np.searchsorted(self.times, last, "left"))
        return Cut(self.times[shown : max(beyond, shown + 1)], last - first)


def read_timeline(container: InputContainer, stream: VideoStream) -> Timeline:
    """Read all packets of a container, and return when the frames of `stream` are presented.

    Raises
    ------
    Failure
        InvalidInput for a video without frames, one that ends before its header says, and one too long to decode.
    """
    times, keys, end = _packet_times(container, stream)
    _check_complete(container, stream, len(times), end)
    if not times:
        raise unusable_file("The video holds no frames.")
    shown = np.sort(np.array(times))
    start, duration = float(shown[0]), float(shown[-1] - shown[0]) + _frame_seconds(stream, shown)
    _check_duration(duration)
    return Timeline(shown - start, np.sort(np.array(keys)) - start, start, duration, _reorder_depth(np.array(times)))


def _reorder_depth(times: np.ndarray) -> int:
    """Return by how many frames the order of decoding, in which `times` are, differs from that of presentation.

    It is the most places by which a frame is decoded later than it is presented.
    """
    places = np.empty(len(times), int)
    places[np.argsort(times, kind="stable")] = np.arange(len(times))
    return int((np.arange(len(times)) - places).max())


def _packet_times(container: InputContainer, stream: VideoStream) -> tuple[list[float], list[float], float]:
    """Return the times of all frames, of the key frames, and the end of the last packet of any stream, in seconds."""
    times: list[float] = []
    keys: list[float] = []
    end = 0.0
    check = with_time_limit()
    try:
        for packet in container.demux():
            check()
            clock = packet.pts if packet.pts is not None else packet.dts
            if clock is None or packet.time_base is None:
                continue
            seconds = float(clock * packet.time_base)
            end = max(end, seconds + float((packet.duration or 0) * packet.time_base))
            if packet.stream.index == stream.index and not packet.is_discard:
                _check_packet(len(times), whole=not packet.is_corrupt)
                times.append(seconds)
                if packet.is_keyframe:
                    keys.append(seconds)
    except av.FFmpegError as error:
        raise unusable_file(f"The video is truncated or damaged at {end:.1f} s: {error.strerror}.") from error
    return times, keys, end


def _check_packet(frames: int, *, whole: bool) -> None:
    if not whole:
        raise unusable_file(f"The video is truncated or damaged: frame {frames} is not whole.")
    if frames >= FRAME_LIMIT:
        raise unusable_file(f"The video has more than {FRAME_LIMIT:,} frames.", "Cut it into shorter clips.")


def _check_duration(seconds: float) -> None:
    if seconds > DURATION_LIMIT:
        raise unusable_file(
            f"The video is {seconds / 3600:,.1f} hours long; allowed are {DURATION_LIMIT // 3600}.",
            "Cut it into shorter clips.",
        )


def _check_complete(container: InputContainer, stream: VideoStream, frames: int, end: float) -> None:
    declared = _declared_end(container)
    if end < declared - max(_TOLERATED_SECONDS, _TOLERATED_SHARE * declared):
        raise unusable_file(
            f"The video is truncated: it ends at {end:.1f} s of the {declared:.1f} s that its header promises."
        )
    if frames < stream.frames * (1 - _TOLERATED_SHARE):
        raise unusable_file(
            f"The video is truncated: it holds {frames} of the {stream.frames} frames that its header promises."
        )


def _declared_end(container: InputContainer) -> float:
    """Return the end that the header states, in seconds; 0 if it states none, as in a live recording.

    In Matroska some programs state the end of the last frame, and others the time from the first one on. The earlier of
    both is taken.
    """
    start = 0 if "matroska" in container.format.name else container.start_time or 0
    return (start + (container.duration or 0)) / av.time_base


def _frame_seconds(stream: VideoStream, shown: np.ndarray) -> float:
    """Return how long the last frame is presented, in seconds: as long as the average frame."""
    if len(shown) > 1 and shown[-1] > shown[0]:
        return float(shown[-1] - shown[0]) / (len(shown) - 1)
    return float(1 / (stream.average_rate or Fraction(25)))
