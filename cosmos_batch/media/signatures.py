"""Identifies a file's format by its first bytes.

FFmpeg's own probing would try some 300 demuxers, playlists and image sequences among them. A hostile file shall reach
no demuxer but the one on which its signature and its extension agree.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

HEAD_BYTES = 4096


@dataclass(frozen=True)
class Format:
    """A file format: its name with an article, the extensions it may have, and what opens it.

    `opener` is the name of FFmpeg's demuxer for a video, or of Pillow's plugin for an image. A format without
    extensions is not accepted; it is listed so that the error can name it.
    """

    label: str
    extensions: tuple[str, ...] = ()
    medium: Literal["video", "image"] | None = None
    opener: str = ""


# QuickTime and MP4 have the same demuxer in FFmpeg, and differ in a brand that many tools set wrongly: either extension
# is accepted. The same holds for Matroska and its subset WebM.
ISO_MEDIA = Format("an MP4 or QuickTime video", (".mp4", ".mov"), "video", "mov")
MATROSKA = Format("a Matroska or WebM video", (".mkv", ".webm"), "video", "matroska")
AVI = Format("an AVI video", (".avi",), "video", "avi")
JPEG = Format("a JPEG image", (".jpg", ".jpeg"), "image", "JPEG")
PNG = Format("a PNG image", (".png",), "image", "PNG")
WEBP = Format("a WebP image", (".webp",), "image", "WEBP")

_PREFIXES = (
    (b"\x1aE\xdf\xa3", MATROSKA),
    (b"\xff\xd8\xff", JPEG),
    (b"\x89PNG\r\n\x1a\n", PNG),
    (b"GIF8", Format("a GIF image")),
    (b"BM", Format("a BMP image")),
    (b"II*\x00", Format("a TIFF image")),
    (b"MM\x00*", Format("a TIFF image")),
    (b"%PDF", Format("a PDF document")),
    (b"PK\x03\x04", Format("a ZIP archive")),
    (b"\x1f\x8b", Format("a gzip archive")),
    (b"OggS", Format("an Ogg file")),
    (b"FLV\x01", Format("a Flash video")),
    (b"\x30\x26\xb2\x75", Format("a Windows Media file")),
    (b"\x00\x00\x01\xba", Format("an MPEG program stream")),
    (b"ID3", Format("an MP3 file")),
    (b"#EXTM3U", Format("a playlist")),
)
_RIFF = {b"AVI ": AVI, b"WEBP": WEBP, b"WAVE": Format("a WAV file")}
_STILL_BRANDS = (b"heic", b"heix", b"mif1", b"msf1", b"avif", b"avis")
# An ISO base media file starts with `ftyp`; QuickTime files older than that box start with any of the others.
_ISO_BOXES = (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot")
_STILL = Format("a HEIF or AVIF image")
_TRANSPORT_STREAM = Format("an MPEG transport stream")
_TS_PACKET = 188
_TEXT = Format("a text")
UNKNOWN = Format("no image or video")


def identify(head: bytes) -> Format:
    """Return the format of a file that begins with `head` (its first `HEAD_BYTES`); `UNKNOWN` if none matches."""
    for prefix, file_format in _PREFIXES:
        if head.startswith(prefix):
            return file_format
    if head.startswith(b"RIFF"):
        return _RIFF.get(head[8:12], UNKNOWN)
    if head[4:8] in _ISO_BOXES:
        return _STILL if head[4:8] == b"ftyp" and head[8:12] in _STILL_BRANDS else ISO_MEDIA
    if head[:1] == b"G" and head[_TS_PACKET : _TS_PACKET + 1] == b"G":
        return _TRANSPORT_STREAM
    return _TEXT if _is_text(head) else UNKNOWN


def identify_file(path: Path) -> Format:
    """Return the format of a file by its first bytes."""
    with path.open("rb") as file:
        return identify(file.read(HEAD_BYTES))


def _is_text(head: bytes) -> bool:
    if b"\x00" in head:
        return False
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.start > 0 and error.end == len(head)  # a character cut by the end of the head
    return bool(head)
