"""Opens and decodes video files: with one demuxer, one video stream, and limits on size and time."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TypeAlias

import av
from av.codec.hwaccel import HWAccel
from av.container import InputContainer
from av.video.stream import VideoStream

from cosmos_batch.catalogue.limits import VIDEO_PIXEL_LIMIT
from cosmos_batch.media.animations import as_matroska
from cosmos_batch.media.errors import unusable_file
from cosmos_batch.media.signatures import ANIMATED_WEBP, ISO_MEDIA, MATROSKA, Source, identify_file

DECODE_SECONDS = 600  # longest time that a thread reads or decodes one file
DECODER_THREADS = 4  # for each video; a worker decodes many at once
Packet: TypeAlias = "av.Packet[VideoStream]"
# The most that H.264 and H.265 allow. With more, FFmpeg's decoder of H.264 aborts the process; a file may claim any.
REORDER_LIMIT = 16
UNDECODED = 0  # a reorder depth for callers to whom the order of frames does not matter
DESCRIBED = (ISO_MEDIA, MATROSKA)  # whose headers have the video's size, and the times of all frames beside them
_ATTACHED_PICTURE = av.stream.Disposition.attached_pic


@contextmanager
def open_video(
    media: Source, hwaccel: HWAccel | None = None, reorder_depth: int | None = None
) -> Iterator[tuple[InputContainer, VideoStream]]:
    """Open a file, and yield its container and its first video stream.

    FFmpeg may use no protocol but `file` and only the demuxer that belongs to the file's signature. Its decoders refuse
    frames of more pixels than VIDEO_PIXEL_LIMIT before they allocate them. An animated WebP, for which FFmpeg has no
    demuxer, is decoded with Pillow and opened as a Matroska file in memory.

    Parameters
    ----------
    hwaccel
        The device that decodes; None for the CPU.
    reorder_depth
        By how many frames the order of decoding differs from that of presentation, if that is known. FFmpeg otherwise
        decodes at least one frame to find it out, which takes a core about 40 ms for H.264 of 1920 x 1080. It is only
        believed of files whose headers describe the video. `UNDECODED` is for callers that decode nothing.

    Raises
    ------
    Failure
        InvalidInput where the container is damaged, holds no video, or holds one that cannot be decoded.
    """
    options = {"protocol_whitelist": "file", "max_pixels": str(VIDEO_PIXEL_LIMIT)}
    file_format = identify_file(media)
    source: str | BinaryIO = f"file:{media}" if isinstance(media, Path) else media
    depth = reorder_depth if file_format in DESCRIBED else None
    if depth is not None:
        options["skip_frame"] = "all"  # of the decoder that FFmpeg has while it opens a file, not of the stream's
    if file_format == ANIMATED_WEBP:
        file_format, source = MATROSKA, as_matroska(media)
    try:
        container = av.open(
            source, "r", format=file_format.opener, options=options, metadata_errors="replace", hwaccel=hwaccel
        )
    except av.FFmpegError as error:
        raise unusable_file(
            f"The video is truncated or damaged: its index cannot be read ({error.strerror})."
        ) from error
    with container:
        stream = _video_stream(container, DECODER_THREADS if hwaccel is None else 1)
        if depth is not None:
            stream.codec_context.reorder_depth = min(depth, REORDER_LIMIT)
        yield container, stream


def _video_stream(container: InputContainer, threads: int) -> VideoStream:
    for stream in container.streams.video:
        if not stream.disposition & _ATTACHED_PICTURE:
            return _decodable(stream, threads)
    if not container.streams:
        raise unusable_file(
            "The video holds no frames: it is truncated before its index (in an MP4 the moov box), or empty."
        )
    raise unusable_file(
        "The file holds no video stream, only sound or other data.", "Upload a file that holds a picture."
    )


def _decodable(stream: VideoStream, threads: int) -> VideoStream:
    if stream.codec_context is None:
        raise unusable_file(
            "The video is in a codec that cannot be decoded here.", "Convert it to H.264 in an MP4 and upload that."
        )
    stream.thread_type, stream.codec_context.thread_count = "AUTO", threads
    stream.codec_context.options = {"max_pixels": str(VIDEO_PIXEL_LIMIT)}
    return stream


def decode(
    container: InputContainer,
    stream: VideoStream,
    check: Callable[[], None],
    unneeded: Callable[[Packet], bool] | None = None,
) -> Iterator[av.VideoFrame]:
    """Yield all frames from the container's position on, in the order of presentation.

    `check` is called after each packet. A packet that cannot be decoded is skipped.

    With `unneeded`, frames of packets for which it is true are left out if no other frame refers to them, which does
    not change the other frames. A packet that cannot be decoded then raises av.FFmpegError, because its frames could
    not be told from those that were left out.
    """
    for packet in container.demux(stream):
        check()
        if unneeded is not None:
            stream.codec_context.skip_frame = "NONREF" if unneeded(packet) else "DEFAULT"
        try:
            yield from packet.decode()
        except av.FFmpegError:
            if unneeded is not None:
                raise
            continue


def with_time_limit(check: Callable[[], None] = lambda: None) -> Callable[[], None]:
    """Return a function to call often: it calls `check`, and raises Failure (InvalidInput) after `DECODE_SECONDS`."""
    deadline = time.monotonic() + DECODE_SECONDS

    def check_both() -> None:
        check()
        if time.monotonic() > deadline:
            raise unusable_file(
                f"The video takes more than {DECODE_SECONDS // 60} minutes to decode.",
                "Choose a shorter part by start and end, cut it into shorter clips, or scale it down.",
            )

    return check_both
