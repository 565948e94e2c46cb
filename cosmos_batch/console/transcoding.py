"""Converting a video that browsers do not play into one that they do, at the same times."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import av
from av.video.reformatter import VideoReformatter

from cosmos_batch.console.pictures import displayed
from cosmos_batch.media.decoding import decode, open_video, with_time_limit
from cosmos_batch.media.errors import unusable_file

PREVIEW_SIDE = 1280  # pixels of the longer side
PREVIEW_SECONDS = 2 * 3600  # of a video; a longer one is not converted
_CLOCK = Fraction(1, 90_000)  # the unit of times in MPEG
# Without B frames the first frame is at time 0 in every player; a key frame each 48 frames makes seeking quick.
_CODING = {"crf": "23", "preset": "veryfast", "bf": "0", "g": "48"}


def write_preview(media: Path, target: Path, report: Callable[[float], None]) -> None:
    """Write a video as MP4 (H.264) without sound, upright and with square pixels, each frame at its own time.

    `report` is called often with the share that is done; what it raises ends the conversion. Raises Failure
    (InvalidInput) where the video cannot be decoded, is too long or too narrow, or takes longer than ten minutes.
    """
    with (
        open_video(media) as (source, stream),
        av.open(str(target), "w", format="mp4", options={"movflags": "+faststart"}) as sink,
    ):
        length = (source.duration or 0) / av.time_base
        if length > PREVIEW_SECONDS:
            raise unusable_file(f"The video is {length / 3600:.1f} hours long, too long to convert for the browser.")
        output = sink.add_stream("libx264", options=_CODING)
        output.pix_fmt, output.codec_context.time_base = "yuv420p", _CLOCK
        scaler = VideoReformatter()
        begin: float | None = None
        last = -1
        for frame in decode(source, stream, with_time_limit()):
            if frame.time is None:
                continue
            begin = frame.time if begin is None else begin
            clock = round((frame.time - begin) / _CLOCK)
            if clock <= last:
                continue
            pixels = displayed(frame, stream.sample_aspect_ratio, PREVIEW_SIDE, scaler)
            height, width = (side // 2 * 2 for side in pixels.shape[:2])  # H.264 has no odd sides
            if last < 0:
                if not width or not height:
                    raise unusable_file("The video is too narrow to convert for the browser.")
                output.width, output.height = width, height
            converted = av.VideoFrame.from_ndarray(pixels[: output.height, : output.width].copy(), format="rgb24")
            converted.pts, converted.time_base = clock, _CLOCK
            sink.mux(output.encode(converted))
            last = clock
            report(min(1.0, (frame.time - begin) / length) if length else 0.0)
        if last < 0:
            raise unusable_file("None of the video's frames can be decoded.")
        sink.mux(output.encode())
