"""Records which parts of a video were decoded, and notes for the reader of a result what was not."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import av
import numpy as np

from cosmos_batch.media.timeline import CLOCK_ROUNDING, Timeline

_MISSING_SECONDS = 0.2  # a gap this much longer than the gaps in the file's index shows that frames were not decoded
_GAPS_LISTED = 5
_NOTED_SKIP_SECONDS = 1.0


@dataclass
class DecodedParts:
    """The parts of a video that were decoded on the way to the sampled frames.

    Attributes
    ----------
    stretches
        For each part that was decoded without a seek, the presentation times of its frames, in seconds from the first
        frame of the video. The first part begins at 0, even if its first frame comes later.
    skipped
        Seconds of video that were not decoded.
    """

    stretches: list[list[float]] = field(default_factory=lambda: [[0.0]])
    skipped: float = 0.0

    def most_left_out(self, timeline: Timeline) -> int:
        """Return how many frames in a row were not decoded, at most, within a stretch."""
        places = [np.searchsorted(timeline.times, np.sort(stretch) - CLOCK_ROUNDING) for stretch in self.stretches]
        return max((int(np.diff(place).max(initial=1)) - 1 for place in places), default=0)

    def seek(self, skipped: float) -> None:
        """Begin a new stretch, after `skipped` seconds of the sampled part that are not decoded.

        Its beginning is known only with its first frame, because an index may name the wrong key frame.
        """
        self.skipped += skipped
        self.stretches.append([])

    def record(self, frames: Iterator[av.VideoFrame], timeline: Timeline) -> Iterator[av.VideoFrame]:
        """Yield the same frames, and record their times."""
        stretch = self.stretches[-1]
        for frame in frames:
            stretch.append(timeline.seconds_of(frame))
            yield frame

    def notes(self, timeline: Timeline) -> list[str]:
        """Return notes for the reader of the result: that frames are damaged, or that stretches were not decoded.

        Damage is noted between the sampled frames too, so that it does not depend on which frames were sampled.
        """
        notes = []
        if gaps := [gap for stretch in self.stretches for gap in _gaps(stretch, timeline)]:
            places = ", ".join(f"{seconds:.1f} s" for seconds in gaps[:_GAPS_LISTED])
            more = f" and {len(gaps) - _GAPS_LISTED} more" if len(gaps) > _GAPS_LISTED else ""
            notes.append(f"The video is damaged: frames after {places}{more} cannot be decoded, and were not seen.")
        return notes + self.skipped_notes()

    def skipped_notes(self) -> list[str]:
        """Return notes for the reader of the result: that stretches were not decoded."""
        if self.skipped < _NOTED_SKIP_SECONDS:
            return []
        return [
            f"{self.skipped:.0f} s of the video, between the frames that were seen, were not decoded: if they are "
            "damaged, that was not noticed."
        ]


def _gaps(decoded: list[float], timeline: Timeline) -> list[float]:
    """Return the times of decoded frames after which frames are missing: where the next one comes too late.

    The times are sorted first, because a decoder may give frames of an AVI each other's times.
    """
    gaps = []
    for before, after in pairwise(sorted(decoded)):
        first = int(np.searchsorted(timeline.times, before + CLOCK_ROUNDING))
        beyond = int(np.searchsorted(timeline.times, after - CLOCK_ROUNDING))
        if first < beyond:
            longest = float(np.max(np.diff([before, *timeline.times[first:beyond], after])))
            if after - before > longest + _MISSING_SECONDS:
                gaps.append(before)
    return gaps
