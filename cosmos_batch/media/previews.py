"""What a video shows, for those who do not play it: a small animation and a sheet of its pictures."""

from pathlib import Path

import numpy as np
from PIL import Image

from cosmos_batch.media.frame_cropping import frames_at_size
from cosmos_batch.media.probing import VideoInfo, upright_size

# VAMS takes no preview that is larger (`MAX_PREVIEW_FILE_SIZE` in its `uploadFile.py`).
GIF_LIMIT = 5 * 1024 * 1024
_LONGER_SIDE = 320  # pixels, as of VAMS's own previews
_GIF_FPS = 8
_GIF_FRAMES = 80
_SAMPLED_SIDE = 48  # pixels of a frame that its colours are taken from
_SHEET_COLUMNS = 4
_SHEET_PICTURES = 16
_GAP = 8  # pixels


def write_gif(video: Path, found: VideoInfo, target: Path) -> None:
    """An animation of a whole probed video at its own speed, looping, small enough for VAMS.

    A long video has fewer frames a second; one with too much in it has fewer still.
    """
    seconds = found.timeline.duration
    pictures = _pictures(video, found, min(_GIF_FRAMES, round(seconds * _GIF_FPS)))
    palette = _palette(pictures)
    quantized = [one.quantize(palette=palette, dither=Image.Dither.NONE) for one in pictures]
    while True:
        first, *others = quantized
        milliseconds = round(1000 * seconds / len(quantized))
        first.save(target, "GIF", save_all=True, append_images=others, duration=milliseconds, loop=0)
        if target.stat().st_size <= GIF_LIMIT or not others:
            return
        quantized = quantized[::2]


def write_contact_sheet(video: Path, found: VideoInfo, target: Path) -> None:
    """A JPEG of up to 16 pictures of a probed video, line by line, the first and the last among them."""
    pictures = _pictures(video, found, _SHEET_PICTURES)
    width, height = (side + _GAP for side in pictures[0].size)
    columns = min(_SHEET_COLUMNS, len(pictures))
    sheet = Image.new("RGB", (columns * width + _GAP, -(-len(pictures) // columns) * height + _GAP), "white")
    for index, picture in enumerate(pictures):
        row, column = divmod(index, columns)
        sheet.paste(picture, (_GAP + column * width, _GAP + row * height))
    sheet.save(target, "JPEG", quality=90)


def _palette(pictures: list[Image.Image]) -> Image.Image:
    """One for all: a palette of its own for each frame flickers, and takes a fifth of a second to find."""
    samples = [np.asarray(one.resize((_SAMPLED_SIDE, _SAMPLED_SIDE), Image.Resampling.NEAREST)) for one in pictures]
    return Image.fromarray(np.concatenate(samples)).quantize()


def _pictures(video: Path, found: VideoInfo, most: int) -> list[Image.Image]:
    """Up to so many frames, evenly spaced."""
    times = found.timeline.times
    chosen = np.linspace(0, len(times) - 1, max(1, min(most, len(times)))).round().astype(int)
    width, height = upright_size(video)
    shrink = min(1.0, _LONGER_SIDE / max(width, height))
    size = (max(1, round(width * shrink)), max(1, round(height * shrink)))
    frames = frames_at_size(video, found.timeline, [float(seconds) for seconds in times[chosen]], size)
    return [Image.fromarray(frame) for frame in frames]
