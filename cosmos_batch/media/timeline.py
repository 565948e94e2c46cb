"""When each frame of a video is shown: one pass over its packets, without decoding."""

from dataclasses import dataclass
from fractions import Fraction

import av
import numpy as np
from av.container import InputContainer
from av.video.stream import VideoStream

from cosmos_batch.media.containers import with_time_limit
from cosmos_batch.media.errors import unusable_file

# Nine hours at 60 frames a second. It bounds the memory of a timeline and the work on a file made to waste it.
FRAME_LIMIT = 2_000_000
DURATION_LIMIT = 24 * 3600  # seconds: a camera's day
# Containers round their duration, and a few lost frames at the end leave the rest useful.
_TOLERATED_SECONDS = 0.5
_TOLERATED_SHARE = 0.05


@dataclass(frozen=True)
class Cut:
    """A part of a timeline: times of its frames, in seconds from the first frame of the whole, and its length."""

    times: np.ndarray
    duration: float


@dataclass(frozen=True)
class Timeline:
    """When the frames of a stream are shown.

    Attributes
    ----------
    times
        Seconds from the first frame to each, ascending. Shape [frames].
    keys
        Those of them at which decoding may begin.
    start
        Presentation time of the first frame in the container's clock, in seconds.
    duration
        Seconds from the first frame to the end of the last.
    """

    times: np.ndarray
    keys: np.ndarray
    start: float
    duration: float

    @property
    def fps(self) -> float:
        """Frames per second on average."""
        return len(self.times) / self.duration

    def key_before(self, seconds: float) -> float:
        """The last time, at `seconds` or earlier, at which decoding may begin."""
        found = int(np.searchsorted(self.keys, seconds, "right"))
        return float(self.keys[found - 1]) if found else 0.0

    def after(self, seconds: float) -> float:
        """When the next frame after one of them is shown; the end where it is the last."""
        following = int(np.searchsorted(self.times, seconds, "right"))
        return float(self.times[following]) if following < len(self.times) else self.duration

    def cut(self, start: float | None, end: float | None) -> "Cut":
        """The part from `start` to `end`, in seconds; what is None or beyond the video's end is its end.

        Raises Failure (InvalidInput) where the part begins after the video.
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
    """Read all packets of a container.

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
    return Timeline(shown - start, np.sort(np.array(keys)) - start, start, duration)


def _packet_times(container: InputContainer, stream: VideoStream) -> tuple[list[float], list[float], float]:
    """Presentation time of each frame, of each key frame, and the end of the last packet of any stream; in seconds."""
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
    """Seconds; 0 for a container without a duration, such as a live recording."""
    return ((container.start_time or 0) + (container.duration or 0)) / av.time_base


def _frame_seconds(stream: VideoStream, shown: np.ndarray) -> float:
    """How long the last frame stays: as long as an average one."""
    if len(shown) > 1 and shown[-1] > shown[0]:
        return float(shown[-1] - shown[0]) / (len(shown) - 1)
    return float(1 / (stream.average_rate or Fraction(25)))
