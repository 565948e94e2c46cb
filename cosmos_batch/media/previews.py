"""Writes previews of a video: a small looping GIF, and a contact sheet of its frames."""

from pathlib import Path

import numpy as np
from PIL import Image

from cosmos_batch.media.frame_cropping import frames_at_size
from cosmos_batch.media.probing import VideoInfo, upright_size

# VAMS accepts no larger preview (`MAX_PREVIEW_FILE_SIZE` in its `uploadFile.py`).
GIF_LIMIT = 5 * 1024 * 1024
_LONGER_SIDE = 320  # pixels, as in the previews that VAMS makes
_GIF_FPS = 8
_GIF_FRAMES = 80
_PALETTE_SIDE = 48  # pixels; each frame is shrunk to this for computing the palette
_SHEET_COLUMNS = 4
_SHEET_PICTURES = 16
_GAP = 8  # pixels


def write_gif(video: Path, info: VideoInfo, target: Path) -> None:
    """Write a looping GIF of a whole probed video at its own speed, of at most 5 MiB for VAMS.

    A long video has fewer frames a second. While the file is too large, every second frame is left out.
    """
    seconds = info.timeline.duration
    pictures = _pictures(video, info, min(_GIF_FRAMES, round(seconds * _GIF_FPS)))
    palette = _palette(pictures)
    quantized = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    while True:
        first, *others = quantized
        milliseconds = round(1000 * seconds / len(quantized))
        first.save(target, "GIF", save_all=True, append_images=others, duration=milliseconds, loop=0)
        if target.stat().st_size <= GIF_LIMIT or not others:
            return
        quantized = quantized[::2]


def write_contact_sheet(video: Path, info: VideoInfo, target: Path) -> None:
    """Write a JPEG with up to 16 evenly spaced frames of a probed video, row by row, from the first to the last."""
    pictures = _pictures(video, info, _SHEET_PICTURES)
    width, height = (side + _GAP for side in pictures[0].size)
    columns = min(_SHEET_COLUMNS, len(pictures))
    sheet = Image.new("RGB", (columns * width + _GAP, -(-len(pictures) // columns) * height + _GAP), "white")
    for index, picture in enumerate(pictures):
        row, column = divmod(index, columns)
        sheet.paste(picture, (_GAP + column * width, _GAP + row * height))
    sheet.save(target, "JPEG", quality=90)


def _palette(pictures: list[Image.Image]) -> Image.Image:
    """Return one palette for all frames. One for each would flicker, and takes 0.2 s to compute."""
    samples = [
        np.asarray(picture.resize((_PALETTE_SIDE, _PALETTE_SIDE), Image.Resampling.NEAREST)) for picture in pictures
    ]
    return Image.fromarray(np.concatenate(samples)).quantize()


def _pictures(video: Path, info: VideoInfo, most: int) -> list[Image.Image]:
    """Return up to `most` evenly spaced frames, upright and at most 320 pixels a side."""
    size = shrunk_size(upright_size(video), _LONGER_SIDE)
    frames = frames_at_size(video, info.timeline, evenly_spaced(info.timeline.times, most), size)
    return [Image.fromarray(frame) for frame in frames]


def evenly_spaced(times: np.ndarray, most: int) -> list[float]:
    """Return up to `most` of the times, and at least one; the first is among them, and of several the last."""
    chosen = np.linspace(0, len(times) - 1, max(1, min(most, len(times)))).round().astype(int)
    return [float(seconds) for seconds in times[chosen]]


def shrunk_size(size: tuple[int, int], side: int) -> tuple[int, int]:
    """Return a size with the same aspect ratio whose longer side has at most `side` pixels."""
    shrink = min(1.0, side / max(size))
    return max(1, round(size[0] * shrink)), max(1, round(size[1] * shrink))
