"""Some forty small files such as people have: from phones, cameras, editors and web pages, well and badly named."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image

from tests.support import media_files
from tests.support.media_files import image, video

Maker = Callable[[Path], Path]


@contextmanager
def kept_scheduling() -> Iterator[None]:
    """Give this thread its scheduling back at the end of the block.

    SVT-AV1 puts the calling thread of root under SCHED_FIFO with priority 99, which all later children inherit: a test
    run of such processes stops every other one on the machine.
    """
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        yield
    finally:
        os.sched_setscheduler(0, policy, parameters)


def av1_mp4(folder: Path) -> Path:
    """Write a clip in AV1, as screen recorders and web pages do."""
    with kept_scheduling():
        return video(folder / "av1.mp4", frames=5, codec="libsvtav1", codec_options={"preset": "10"})


def _named(name: str, make: Callable[[Path], Path]) -> Maker:
    """Return a maker of the same file under another name."""
    return lambda folder: make(folder).rename(folder / name)


def _clip(name: str, **settings: object) -> Maker:
    return lambda folder: video(folder / name, **{"frames": 8, **settings})  # type: ignore[arg-type]


def _picture(name: str, mode: str = "RGB", **save: object) -> Maker:
    def make(folder: Path) -> Path:
        Image.new(mode, (64, 48)).save(folder / name, **save)
        return folder / name

    return make


def _sixteen_bits(folder: Path) -> Path:
    Image.fromarray(np.full((48, 64), 0x8000, np.uint16)).save(folder / "depth.png")
    return folder / "depth.png"


def _turned_jpg(folder: Path) -> Path:
    exif = Image.Exif()
    exif[0x0112] = 6
    return image(folder / "IMG_0001.JPG".lower(), exif=exif)


VIDEOS: dict[str, Maker] = {
    "landscape": _clip("clip.mp4"),
    "vertical": _clip("vertical.mp4", width=96, height=160),
    "turned by the phone": _clip("IMG_4711.MOV".lower(), rotation=90),
    "upside down": _clip("upside.mp4", rotation=180),
    "4K": _clip("uhd.mp4", frames=2, width=3840, height=2160, codec_options={"preset": "ultrafast"}),
    "HEVC": _clip("hevc.mp4", codec="libx265", codec_options={"x265-params": "log-level=none"}),
    "AV1": av1_mp4,
    "VP9": _clip("web.webm"),
    "VP8": _clip("old.webm", codec="libvpx"),
    "ProRes": _clip("edit.mov", codec="prores_ks", pixel_format="yuv422p10le"),
    "MPEG-4 in AVI": _clip("old.avi"),
    "Matroska": _clip("obs.mkv"),
    "240 fps": _clip("slowmo.mp4", frames=60, fps=240),
    "1 fps": _clip("timelapse.mp4", fps=1),
    "variable rate": media_files.variable_mp4,
    "two hours": _clip("watch.mp4", frames=720, fps=1, width=32, height=32, pts=lambda index: 10 * index),
    "10-bit HDR": media_files.hdr_mp4,
    "with sound": media_files.sounding_mp4,
    "odd sides": _clip("odd.webm", width=161, height=127),
    "one frame": _clip("still.mp4", frames=1),
    "two frames": _clip("two.mp4", frames=2),
    "spaces": _clip("my first clip.mp4"),
    "emoji": _clip("arm 🤖.mp4"),
    "percent, plus, question": _clip("100%+#?.mp4"),
    "other scripts": _clip("ロボット-робот.mp4"),
    "capitals": _named("CLIP.MP4", _clip("clip.mp4")),
    ".m4v": _clip("itunes.m4v"),
    ".ts": _clip("camera.ts"),
    ".gif": media_files.animated_gif,
    ".gif of one picture": _picture("still.gif"),
    "animated .webp": media_files.animated_webp,
    "MP4 named .mov": _named("phone.mov", _clip("phone.mp4")),
    "MP4 named .avi": _named("phone.avi", _clip("phone.mp4")),
    "WebM named .mp4": _named("web.mp4", _clip("web.webm")),
    "GIF named .mp4": media_files.gif_named_mp4,
}

IMAGES: dict[str, Maker] = {
    "JPEG": lambda folder: image(folder / "photo.jpg"),
    "JPEG turned by the phone": _turned_jpg,
    "CMYK": _picture("print.jpg", "CMYK"),
    "PNG with transparency": _picture("logo.png", "RGBA"),
    "grey and transparent": _picture("mask.png", "LA"),
    "palette": _picture("palette.png", "P"),
    "16 bits": _sixteen_bits,
    "WebP": _picture("web.webp"),
    "HEIC": lambda folder: media_files.heic(folder / "phone.heic"),
    "HEIC turned by the phone": lambda folder: media_files.heic(folder / "turned.heic", orientation=6),
    "PNG named .jpg": media_files.png_named_jpg,
    "HEIC named .jpg": lambda folder: media_files.heic(folder / "shared.jpg"),
    "WebP named .png": _named("saved.png", _picture("saved.webp")),
}

FILES = {**VIDEOS, **IMAGES}
