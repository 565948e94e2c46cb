"""Samples the frames of a video for a reasoner: picks them by time and scales each one while decoding goes on.

Only the scaled frames are in memory together. Decoding jumps over long stretches between two wanted frames, leaves out
frames that are neither wanted nor referred to, and uses the GPU's decoder for large videos, where there is one.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import av
import numpy as np
from av.container import InputContainer
from av.video.reformatter import ColorRange
from av.video.stream import VideoStream

from cosmos_batch.catalogue.pixel_budget import PixelBudget
from cosmos_batch.contract.error import Failure
from cosmos_batch.media.decoded_parts import DecodedParts
from cosmos_batch.media.decoding import Packet, decode, open_video, with_time_limit
from cosmos_batch.media.errors import unusable_file
from cosmos_batch.media.fitting import fit
from cosmos_batch.media.frame_scaling import FrameScaler
from cosmos_batch.media.gpu_decoding import gpu_decoder, suits_gpu
from cosmos_batch.media.probing import VideoInfo
from cosmos_batch.media.rotation import quarter_turns
from cosmos_batch.media.timeline import CLOCK_ROUNDING, Cut, Timeline

# If the frame that comes is this much later than the wanted one, frames between them could not be decoded.
_HOLE_SECONDS = 1.0
_REORDERING_SECONDS = 1.0  # frames are decoded at most this much earlier than they are presented
_NEAR_SECONDS = 2.0  # frames up to this far ahead are decoded and dropped, because a seek would take longer
# H.264 says of each frame whether any other refers to it. H.265 says it only of frames of the same temporal layer.
CODEC_WITH_REFERENCES = "h264"
DECODED_BY_GPU = "The GPU decoded the video: damage within a frame, if there is any, was not noticed."


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
        Sentences for the reader of the result: that the video was sampled at a lower rate than requested, that it is
        damaged between the sampled frames, that parts of it were not decoded, or that the GPU decoded it.
    """

    frames: np.ndarray
    indices: list[int]
    fps: float
    duration: float
    source_frames: int
    notes: tuple[str, ...] = ()

    @property
    def metadata(self) -> dict[str, object]:
        """Return the clip as the `video_metadata` of transformers' processors."""
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
    info: VideoInfo,
    fps: float,
    budget: PixelBudget,
    *,
    start: float | None = None,
    end: float | None = None,
    min_frames: int = 1,
    max_frames: int,
    may_thin: bool = True,
    check: Callable[[], None] = lambda: None,
    on_gpu: bool = False,
) -> Clip:
    """Decode a probed video once and keep `fps` frames of each second, upright, within `budget`.

    The frames are evenly spaced between the first and the last, as in transformers' Qwen3-VL processor. A video with
    fewer than `min_frames` frames gives all it has; one too long for `max_frames` is sampled at a lower rate.

    Parameters
    ----------
    path, info
        A video, and what `probe` says of it.
    fps
        Frames per second of video.
    budget
        Pixels that the frames may have.
    start, end
        The part to sample, in seconds of the video; the whole video by default. Frames keep their times in the video.
    may_thin
        Whether a video too long for `max_frames` may be sampled at a lower rate, with a note. Else it is refused.
    check
        Called after each packet. What it raises ends the decoding.
    on_gpu
        Whether the GPU may decode the video, which it does if it can and takes less time than the CPU. The frames are
        the same either way.

    Raises
    ------
    Failure
        InvalidInput where a wanted frame cannot be decoded, where decoding takes over 10 minutes, where `start` lies
        behind the end of the video, or where it is too long and `may_thin` is False.
    """
    timeline = info.timeline
    cut = timeline.cut(start, end)
    thinned = _thinned(cut, fps, max_frames)
    if thinned and not may_thin:
        raise unusable_file(
            thinned, "Lower fps, choose a shorter part by start and end, or set longVideo to 'sampleDown'."
        )
    wanted = sample_times(cut, fps, min_frames, max_frames)
    check = with_time_limit(check)
    on_gpu = on_gpu and suits_gpu(info, wanted[0], wanted[-1])
    pixels, damage = _decode_scaled(path, info, wanted, budget, check, on_gpu)
    indices = [round(seconds * timeline.fps) for seconds in wanted]
    notes = tuple(note for note in (thinned, *damage) if note)
    return Clip(pixels, indices, timeline.fps, timeline.duration, len(timeline.times), notes)


def sample_times(cut: Cut, fps: float, min_frames: int, max_frames: int) -> list[float]:
    """Return the times of the frames to sample, in seconds from the first frame; ascending and distinct."""
    count = min(max(_frame_count(cut, fps), min_frames, 1), max_frames, len(cut.times))
    even = np.linspace(cut.times[0], cut.times[-1], count)
    between = (cut.times[1:] + cut.times[:-1]) / 2
    nearest = np.unique(np.searchsorted(between, even))
    return [float(seconds) for seconds in cut.times[nearest]]


def _frame_count(cut: Cut, fps: float) -> int:
    return int(cut.duration * fps + CLOCK_ROUNDING)


def _thinned(cut: Cut, fps: float, max_frames: int) -> str | None:
    """Return a note if `fps` gives more than `max_frames` frames, else None. All frames of a short video fit."""
    if min(_frame_count(cut, fps), len(cut.times)) <= max_frames:
        return None
    return (
        f"{cut.duration:.1f} s of video at {fps:g} frames a second are more than the {max_frames} frames that the "
        f"model can take with this question: {max_frames / cut.duration:.3g} a second fit."
    )


@dataclass(frozen=True)
class Shortcuts:
    """How a video's wanted frames are decoded sooner than by decoding all frames up to them on the CPU.

    Attributes
    ----------
    seeks
        Seek over long stretches between two wanted frames.
    unreferenced
        Leave out frames that are neither wanted nor referred to by another frame.
    on_gpu
        Decode on the GPU.
    """

    seeks: bool = False
    unreferenced: bool = False
    on_gpu: bool = False

    @property
    def accepts_wanted_frames_only(self) -> bool:
        """Return whether another frame than the wanted one always raises _ShortcutFailed."""
        return self.unreferenced or self.on_gpu

    def unneeded(self, timeline: Timeline, wanted: list[float]) -> Callable[[Packet], bool] | None:
        """Return the argument `unneeded` of `decode`: a function that says whether a packet's frame is not wanted.

        None means that every frame is decoded and that packets which cannot be decoded are skipped. On the GPU a
        function is always returned, so that such a packet raises an error and the CPU decodes the video instead.
        """
        if not self.unreferenced:
            return (lambda _: False) if self.on_gpu else None
        times = np.array(wanted)

        def is_unneeded(packet: Packet) -> bool:
            if packet.pts is None or packet.time_base is None:
                return False
            seconds = float(packet.pts * packet.time_base) - timeline.start
            return bool(np.abs(times - seconds).min() > CLOCK_ROUNDING)

        return is_unneeded


class _ShortcutFailed(Exception):  # noqa: N818 - the file can still be decoded without it
    """A shortcut gave another frame than the wanted one, or hides whether a frame is damaged."""


def _decode_scaled(
    path: Path, info: VideoInfo, wanted: list[float], budget: PixelBudget, check: Callable[[], None], on_gpu: bool
) -> tuple[np.ndarray, list[str]]:
    """Return the wanted frames, scaled, and notes on what was not decoded.

    It tries the fastest shortcuts first, and decodes the whole video without any if all of them fail.
    """
    ways = [Shortcuts(seeks=True, unreferenced=True), Shortcuts(seeks=True)]
    if on_gpu:
        ways.insert(0, Shortcuts(seeks=True, unreferenced=True, on_gpu=True))
    for shortcuts in ways:
        with suppress(_ShortcutFailed):
            return _decode_once(path, info, wanted, budget, check, shortcuts)
    return _decode_once(path, info, wanted, budget, check, Shortcuts())


def _decode_once(
    path: Path,
    info: VideoInfo,
    wanted: list[float],
    budget: PixelBudget,
    check: Callable[[], None],
    shortcuts: Shortcuts,
) -> tuple[np.ndarray, list[str]]:
    parts, timeline = DecodedParts(), info.timeline
    if info.codec != CODEC_WITH_REFERENCES:
        shortcuts = replace(shortcuts, unreferenced=False)
    accelerator = gpu_decoder() if shortcuts.on_gpu else None
    # The depth is wrong if the file's times are. Where no check would notice a wrong order, FFmpeg finds it out itself.
    depth = timeline.reorder_depth if shortcuts.accepts_wanted_frames_only else None
    with ExitStack() as stack:
        try:
            container, stream = stack.enter_context(open_video(path, accelerator, depth))
        except (Failure, RuntimeError) as error:
            if not shortcuts.on_gpu:
                raise
            raise _ShortcutFailed from error
        frames = decode_at_times(container, stream, timeline, wanted, check, shortcuts, parts)
        try:
            pixels = _scaled(frames, len(wanted), budget)
        except av.FFmpegError as error:
            if shortcuts == Shortcuts():
                raise unusable_file(f"The video is damaged: it cannot be decoded ({error.strerror}).") from error
            raise _ShortcutFailed from error
    if shortcuts.accepts_wanted_frames_only and parts.gaps(timeline):
        raise _ShortcutFailed
    return pixels, [*parts.notes(timeline), *([DECODED_BY_GPU] if shortcuts.on_gpu else [])]


def decode_at_times(
    container: InputContainer,
    stream: VideoStream,
    timeline: Timeline,
    wanted: list[float],
    check: Callable[[], None],
    shortcuts: Shortcuts,
    parts: DecodedParts | None = None,
) -> Iterator[av.VideoFrame]:
    """Yield for each wanted time the first frame that is presented then or later.

    It seeks to the first one by the container's index. With a shortcut it raises _ShortcutFailed where not exactly the
    wanted frame comes: an index can be wrong. What is decoded on the way is recorded in `parts`.

    Where a shortcut leaves out many frames in a row, the gap looks like damage, so such a video is decoded without the
    shortcut. Encoders repeat their pattern of frames, so the second wanted frame already shows whether there are gaps.
    """
    parts = DecodedParts() if parts is None else parts
    unneeded = shortcuts.unneeded(timeline, wanted)
    decoded, at = parts.record(decode(container, stream, check, unneeded), timeline), 0.0
    for number, seconds in enumerate(wanted):
        key = timeline.key_before(seconds)
        seeks = key > at + _NEAR_SECONDS and (shortcuts.seeks or seconds == wanted[0])
        if seeks:
            _seek(container, stream, timeline.start + key)
            parts.seek(0.0 if seconds == wanted[0] else key - timeline.after(at))
            decoded = parts.record(decode(container, stream, check, unneeded), timeline)
        frame = next((frame for frame in decoded if timeline.seconds_of(frame) >= seconds - CLOCK_ROUNDING), None)
        exact = frame is not None and timeline.seconds_of(frame) <= seconds + CLOCK_ROUNDING
        if not exact and (unneeded or (seeks and shortcuts.seeks)):
            raise _ShortcutFailed
        if frame is None or timeline.seconds_of(frame) > seconds + _HOLE_SECONDS:
            raise unusable_file(
                f"The video is damaged: it cannot be decoded at {seconds:.1f} s of {timeline.duration:.1f} s."
            )
        if unneeded and number == 1 and parts.gaps(timeline):
            raise _ShortcutFailed
        at = timeline.seconds_of(frame)
        yield frame


def _seek(container: InputContainer, stream: VideoStream, seconds: float) -> None:
    """Seek to the key frame at a time, in seconds of the container's clock. Does nothing if the container cannot.

    A transport stream has no index: FFmpeg looks for the time at which a frame is decoded, which is before the one at
    which it is presented, and may end after the key frame.
    """
    if container.format.name == "mpegts":
        seconds -= _REORDERING_SECONDS
    if stream.time_base is not None:
        with suppress(av.FFmpegError):
            container.seek(round(seconds / stream.time_base), stream=stream)


def _scaled(frames: Iterator[av.VideoFrame], count: int, budget: PixelBudget) -> np.ndarray:
    """Return `count` frames as RGB, at a size at which all fit the budget, and upright.

    Phones store portrait video on its side, with a display matrix. Size and rotation are those of the first frame for
    all frames, because a stream may change both.
    """
    first = next(frames)
    width, height = fit(first.width, first.height, count, budget)
    scaler = FrameScaler(width, height)
    turns = quarter_turns(first)
    upright = (width, height) if turns % 2 else (height, width)
    # Each frame is copied to its place at once, so that no second copy of all of them is in memory.
    pixels = np.empty((count, *upright, 3), np.uint8)
    for place, frame in zip(pixels, chain([first], frames), strict=True):
        if not _scales_alike(frame, width, height):
            raise _ShortcutFailed
        place[:] = np.rot90(scaler.pixels(frame), turns)
    return pixels


def _scales_alike(frame: av.VideoFrame, width: int, height: int) -> bool:
    """Return whether a frame has the same pixels as one that the CPU decoded when it is scaled to this size.

    One in the GPU's memory has not at its own size, because FFmpeg then rounds the colors of `nv12` otherwise than
    those of `yuv420p`. Nor if its values have the full range, or more than 8 bits.
    """
    if frame.sw_format is None:  # the CPU decoded it
        return True
    eight_bits, full_range = frame.sw_format.name == "nv12", frame.color_range == ColorRange.JPEG
    return eight_bits and not full_range and (width, height) != (frame.width, frame.height)
