"""Pictures of images and videos as a player shows them: upright, with square pixels, and nothing cropped."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from av.video.reformatter import Interpolation, VideoReformatter
from PIL import Image

from cosmos_batch.media.decoding import decode, open_video, with_time_limit
from cosmos_batch.media.errors import unusable_file
from cosmos_batch.media.frame_sampling import Shortcuts, decode_at_times
from cosmos_batch.media.images import decode_upright, open_image
from cosmos_batch.media.probing import upright_size
from cosmos_batch.media.rotation import quarter_turns
from cosmos_batch.media.signatures import identify_file
from cosmos_batch.media.timeline import Timeline

_WIDEST_PIXEL = 16  # a file that declares pixels wider or higher than this is damaged, and its pixels count as square


def displayed_size(path: Path) -> tuple[int, int]:
    """Return the width and height at which a player shows a probed file; of a video, its first frame.

    A video may have pixels that are not square, such as DVDs and anamorphic film have: it is as much wider or
    narrower. Raises Failure (InvalidInput) where the file is damaged.
    """
    if identify_file(path).medium == "image":
        return upright_size(path)
    with open_video(path) as (container, stream):
        frame = next(decode(container, stream, with_time_limit()), None)
        if frame is None:
            raise unusable_file("The video is damaged: none of its frames can be decoded.")
        shape = float(stream.sample_aspect_ratio or 1)
        width = round(frame.width * shape) if 1 / _WIDEST_PIXEL <= shape <= _WIDEST_PIXEL else frame.width
        return (frame.height, width) if quarter_turns(frame) % 2 else (width, frame.height)


def displayed_image(path: Path, size: tuple[int, int]) -> np.ndarray:
    """Return a probed image, scaled to this width and height: RGB, uint8, [H, W, 3].

    Raises Failure (InvalidInput) where it is damaged.
    """
    with open_image(path) as image:
        return np.asarray(decode_upright(image).resize(size, Image.Resampling.BICUBIC))


def displayed_frames(path: Path, timeline: Timeline, times: list[float], size: tuple[int, int]) -> Iterator[np.ndarray]:
    """Yield frames of a probed video, each scaled to this width and height: RGB, uint8, [H, W, 3].

    `times` are in seconds from the first frame, ascending; a time that is listed twice yields its frame twice. One
    frame is in memory at a time. Raises Failure (InvalidInput) where the video cannot be decoded at one of the times.
    """
    repetitions = Counter(times)
    scaler = VideoReformatter()
    with open_video(path) as (container, stream):
        frames = decode_at_times(container, stream, timeline, list(repetitions), lambda: None, Shortcuts())
        for frame, count in zip(frames, repetitions.values(), strict=True):
            turns = quarter_turns(frame)
            width, height = size if turns % 2 == 0 else size[::-1]
            scaled = scaler.reformat(frame, width, height, "rgb24", interpolation=Interpolation.BICUBIC)
            pixels = np.ascontiguousarray(np.rot90(scaled.to_ndarray(), turns))
            for _ in range(count):
                yield pixels
