"""Identifies a file's format by its first bytes.

FFmpeg's own probing would try some 300 demuxers, playlists and image sequences among them. A hostile file shall reach
none but the one demuxer of its signature, which is one of the few of this module. Its name decides nothing: phones and
web pages save files under the extension of another format.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

HEAD_BYTES = 4096

Source = Path | BinaryIO
"""A media file on this machine, or a stream over one that lies elsewhere, in which can be sought."""


@dataclass(frozen=True)
class Format:
    """A file format: its name with an article, the extensions it may have, and what opens it.

    `opener` is the name of FFmpeg's demuxer for a video, or of Pillow's plugin for an image. A format without a medium
    is not accepted; it is listed so that the error can name it.
    """

    label: str
    extensions: tuple[str, ...] = ()
    medium: Literal["video", "image"] | None = None
    opener: str = ""


# QuickTime and MP4 have the same demuxer in FFmpeg, and differ in a brand that many tools set wrongly: either extension
# is accepted. The same holds for Matroska and its subset WebM.
ISO_MEDIA = Format("an MP4 or QuickTime video", (".mp4", ".mov", ".m4v"), "video", "mov")
MATROSKA = Format("a Matroska or WebM video", (".mkv", ".webm"), "video", "matroska")
AVI = Format("an AVI video", (".avi",), "video", "avi")
GIF = Format("a GIF", (".gif",), "video", "gif")
TRANSPORT_STREAM = Format("an MPEG transport stream", (".ts",), "video", "mpegts")
JPEG = Format("a JPEG image", (".jpg", ".jpeg"), "image", "JPEG")
PNG = Format("a PNG image", (".png",), "image", "PNG")
WEBP = Format("a WebP image", (".webp",), "image", "WEBP")
# FFmpeg has no demuxer for it: `animations` reads it with Pillow.
ANIMATED_WEBP = Format("an animated WebP", (".webp",), "video", "WEBP")
HEIC = Format("a HEIC image", (".heic",), "image", "HEIF")

_PREFIXES = (
    (b"\x1aE\xdf\xa3", MATROSKA),
    (b"\xff\xd8\xff", JPEG),
    (b"\x89PNG\r\n\x1a\n", PNG),
    (b"GIF8", GIF),
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
_WEBP_FLAGS, _WEBP_ANIMATED = 20, 0x02  # the byte with the flags of a WebP that begins with a chunk VP8X
_HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"mif1", b"msf1")
_AVIF_BRANDS = (b"avif", b"avis")
# An ISO base media file starts with `ftyp`; QuickTime files older than that box start with any of the others.
_ISO_BOXES = (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot")
_AVIF = Format("an AVIF image")
_TS_PACKET = 188
_TEXT = Format("a text")
UNKNOWN = Format("no image or video")


def identify(head: bytes) -> Format:
    """Return the format of a file that begins with `head` (its first `HEAD_BYTES`); `UNKNOWN` if none matches."""
    for prefix, file_format in _PREFIXES:
        if head.startswith(prefix):
            return file_format
    if head.startswith(b"RIFF"):
        return ANIMATED_WEBP if _is_animated_webp(head) else _RIFF.get(head[8:12], UNKNOWN)
    if head[4:8] in _ISO_BOXES:
        return _iso_format(head)
    if head[::_TS_PACKET][:3] == b"GGG":
        return TRANSPORT_STREAM
    return _TEXT if _is_text(head) else UNKNOWN


def identify_file(source: Source) -> Format:
    """Return the format of a file by its first bytes. A stream is left at its beginning."""
    if isinstance(source, Path):
        with source.open("rb") as file:
            return identify(file.read(HEAD_BYTES))
    source.seek(0)
    head = source.read(HEAD_BYTES)
    source.seek(0)
    return identify(head)


def note_on_name(path: Path) -> str | None:
    """Return a note for the reader of a result if a file's content is another format than its extension says."""
    file_format = identify_file(path)
    if path.suffix.lower() in file_format.extensions:
        return None
    return f"The content is {file_format.label}, though the name ends in {path.suffix}: it was read as what it is."


def _is_animated_webp(head: bytes) -> bool:
    is_extended = head[8:16] == b"WEBPVP8X" and len(head) > _WEBP_FLAGS
    return is_extended and bool(head[_WEBP_FLAGS] & _WEBP_ANIMATED)


def _iso_format(head: bytes) -> Format:
    """Return the format of an ISO base media file by its main brand, and by the compatible ones."""
    if head[4:8] != b"ftyp":
        return ISO_MEDIA
    main, others = head[8:12], head[16 : int.from_bytes(head[:4], "big")]
    if main in _AVIF_BRANDS or (main in _HEIC_BRANDS and any(brand in others for brand in _AVIF_BRANDS)):
        return _AVIF
    return HEIC if main in _HEIC_BRANDS else ISO_MEDIA


def _is_text(head: bytes) -> bool:
    if b"\x00" in head:
        return False
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.start > 0 and error.end == len(head)  # a character cut by the end of the head
    return bool(head)
