"""A video of two gigabytes that takes a few megabytes of the disk: its middle is a hole in the file."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tests.support import media_files

HOLE = 2 * 1024**3  # bytes
FRAMES = 60
SECONDS = FRAMES / media_files.FPS
_CONTAINERS = (b"moov", b"trak", b"mdia", b"minf", b"stbl")


def write_large_video(path: Path) -> Path:
    """Write an MP4 whose last frames lie behind the hole. Noise makes its frames so large that they are in chunks."""
    noise = np.random.default_rng(18)
    media_files.video(
        path,
        frames=FRAMES,
        width=320,
        height=240,
        paint=lambda _: noise.integers(0, 256, (240, 320, 3), np.uint8),
        options={"movflags": "faststart"},
        codec_options={"g": "10"},
    )
    data = bytearray(path.read_bytes())
    boxes = dict(_boxes(data, 0, len(data)))
    offsets, media = boxes[b"stco"], boxes[b"mdat"]
    count = int.from_bytes(data[offsets + 12 : offsets + 16], "big")
    assert count > 1, "the frames are in several chunks"
    places = [offsets + 16 + 4 * number for number in range(count)]
    last = int.from_bytes(data[places[-1] : places[-1] + 4], "big")
    data[places[-1] : places[-1] + 4] = (last + HOLE).to_bytes(4, "big")
    size = int.from_bytes(data[media : media + 4], "big")
    data[media : media + 4] = (size + HOLE).to_bytes(4, "big")
    with path.open("wb") as file:
        file.write(data[:last])
        file.seek(HOLE, 1)
        file.write(data[last:])
    return path


def _boxes(data: bytearray, at: int, end: int) -> Iterator[tuple[bytes, int]]:
    """Yield the names and places of boxes, and of those within the boxes that lead to the table of chunks."""
    while at < end:
        size, name = int.from_bytes(data[at : at + 4], "big"), bytes(data[at + 4 : at + 8])
        yield name, at
        if name in _CONTAINERS:
            yield from _boxes(data, at + 8, at + size)
        at += size
