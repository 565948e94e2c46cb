"""Records which parts of a video were decoded, and writes notes on the parts that were not."""

from collections.abc import Iterator
from dataclasses import dataclass, field

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
        if gaps := self.gaps(timeline):
            places = ", ".join(f"{seconds:.1f} s" for seconds in gaps[:_GAPS_LISTED])
            more = f" and {len(gaps) - _GAPS_LISTED} more" if len(gaps) > _GAPS_LISTED else ""
            notes.append(f"The video is damaged: frames after {places}{more} cannot be decoded, and were not seen.")
        if self.skipped >= _NOTED_SKIP_SECONDS:
            notes.append(
                f"{self.skipped:.0f} s of the video, between the frames that were seen, were not decoded: if they are "
                "damaged, that was not noticed."
            )
        return notes

    def gaps(self, timeline: Timeline) -> list[float]:
        """Return the times of decoded frames after which frames are missing within a stretch."""
        return [gap for stretch in self.stretches for gap in _gaps(stretch, timeline)]


def _gaps(decoded: list[float], timeline: Timeline) -> list[float]:
    """Return the times of decoded frames after which frames are missing: where the next one comes too late.

    The times are sorted first, because a decoder may give frames of an AVI each other's times.
    """
    ordered = np.sort(np.array(decoded))
    before, after = ordered[:-1], ordered[1:]
    first = np.searchsorted(timeline.times, before + CLOCK_ROUNDING)
    beyond = np.searchsorted(timeline.times, after - CLOCK_ROUNDING)
    gaps = []
    for at in np.flatnonzero((first < beyond) & (after - before > _MISSING_SECONDS)):
        longest = np.diff([before[at], *timeline.times[first[at] : beyond[at]], after[at]]).max()
        if after[at] - before[at] > longest + _MISSING_SECONDS:
            gaps.append(float(before[at]))
    return gaps
