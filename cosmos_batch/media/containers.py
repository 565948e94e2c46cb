"""Opening video containers: one demuxer, one stream, bounded decoding."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import av
from av.container import InputContainer
from av.video.stream import VideoStream

from cosmos_batch.catalogue.limits import VIDEO_PIXEL_LIMIT
from cosmos_batch.media.refusal import refuse
from cosmos_batch.media.signatures import identify_file

DECODER_THREADS = 4  # of one video; many are decoded at once
_ATTACHED_PICTURE = av.stream.Disposition.attached_pic


@contextmanager
def open_video(path: Path) -> Iterator[tuple[InputContainer, VideoStream]]:
    """The container and the first video stream of a file, closed afterwards.

    FFmpeg gets the path as a local file and no protocol, the demuxer is the one of the file's signature, and a decoder
    refuses frames over the catalogue's limit before it allocates them.

    Raises
    ------
    Failure
        InvalidInput where the container is damaged, holds no video, or holds one that cannot be decoded.
    """
    options = {"protocol_whitelist": "file", "max_pixels": str(VIDEO_PIXEL_LIMIT)}
    try:
        container = av.open(
            f"file:{path}", "r", format=identify_file(path).opener, options=options, metadata_errors="replace"
        )
    except av.FFmpegError as error:
        raise refuse(f"The video is truncated or damaged: its index cannot be read ({error.strerror}).") from error
    with container:
        yield container, _video_stream(container)


def _video_stream(container: InputContainer) -> VideoStream:
    for stream in container.streams.video:
        if not stream.disposition & _ATTACHED_PICTURE:
            return _decodable(stream)
    if not container.streams:
        raise refuse("The video holds no frames: it is truncated before its index (in an MP4 the moov box), or empty.")
    raise refuse("The file holds no video stream, only sound or other data.", "Upload a file that holds a picture.")


def _decodable(stream: VideoStream) -> VideoStream:
    if stream.codec_context is None:
        raise refuse(
            "The video is in a codec that cannot be decoded here.", "Convert it to H.264 in an MP4 and upload that."
        )
    stream.thread_type, stream.codec_context.thread_count = "AUTO", DECODER_THREADS
    return stream


def decode(container: InputContainer, stream: VideoStream, check: Callable[[], None]) -> Iterator[av.VideoFrame]:
    """All frames from where the container is, in the order they are shown; `check` is called after each packet.

    A packet that cannot be decoded is passed over.
    """
    for packet in container.demux(stream):
        check()
        try:
            yield from packet.decode()
        except av.FFmpegError:
            continue
