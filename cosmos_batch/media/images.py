"""Opens still images without decoding them, and reads them at a size that fits the model."""

import io
import struct
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image, ImageOps

from cosmos_batch.catalogue.limits import IMAGE_FILE_LIMIT, IMAGE_PIXEL_LIMIT, IMAGE_SIDE_LIMIT
from cosmos_batch.catalogue.pixel_budget import PixelBudget
from cosmos_batch.contract.error import Failure
from cosmos_batch.media.errors import unusable_file
from cosmos_batch.media.fitting import fit
from cosmos_batch.media.signatures import HEIC, Source, identify_file

# Pillow's own limit is off: `open_image` checks lower ones before any pixel is decoded.
Image.MAX_IMAGE_PIXELS = None
_SIDEWAYS = range(5, 9)  # the EXIF orientations that swap width and height
# What Pillow and its plugins raise for damaged files: EOFError and RuntimeError for HEIC.
_DAMAGE = (OSError, ValueError, SyntaxError, EOFError, RuntimeError)
# What Pillow raises for damaged EXIF data. An image with such data is read as it is stored, because its pixels may be
# sound, and browsers show it.
_DAMAGED_EXIF = (SyntaxError, struct.error)


def open_image(source: Source) -> Image.Image:
    """Open an image: its header is read, its pixels are not.

    Only Pillow's plugin for the file's signature reads it. Raises Failure (InvalidInput) where it is damaged, or has
    more bytes or pixels than are read: a PNG of a few megabytes can have billions of pixels.
    """
    file_format = identify_file(source)
    refuse_large_file(source)
    if file_format == HEIC:
        register_heic()
    try:
        image = Image.open(source, formats=[file_format.opener])
    except _DAMAGE as error:
        raise unusable_file(f"The image is damaged: its header cannot be read ({error}).") from error
    try:
        _refuse_large(*image.size)
    except Failure:
        image.close()
        raise
    return image


def refuse_large_file(source: Source) -> None:
    """Raise Failure (InvalidInput) for an image or an animation of more bytes than its pixels can need.

    For a WebP or a HEIC, Pillow reads a file whole, and an animated WebP takes six times its size in memory.
    """
    size = source.stat().st_size if isinstance(source, Path) else source.seek(0, io.SEEK_END)
    if not isinstance(source, Path):
        source.seek(0)
    if size > IMAGE_FILE_LIMIT:
        raise unusable_file(
            f"The image is a file of {size:,} bytes; allowed are {IMAGE_FILE_LIMIT:,}.",
            "Save it again in its own format, or convert an animation to an MP4.",
        )


def _refuse_large(width: int, height: int) -> None:
    if width * height > IMAGE_PIXEL_LIMIT or max(width, height) > IMAGE_SIDE_LIMIT:
        raise unusable_file(
            f"The image is {width:,} x {height:,} pixels; allowed are {IMAGE_SIDE_LIMIT:,} a side and "
            f"{IMAGE_PIXEL_LIMIT:,} in all.",
            "Scale it down or cut it into tiles, and upload those.",
        )


@cache
def register_heic() -> None:
    """Register Pillow's plugin for HEIC, a package of its own. Raises Failure (InvalidInput) where it is missing."""
    try:
        from pillow_heif import register_heif_opener
    except ImportError as error:  # Cosmos Framework's image has the packages that NVIDIA locked
        raise unusable_file(
            "The image is in the format HEIC, which cannot be decoded here.", "Convert it to JPEG and upload that."
        ) from error
    register_heif_opener()


def size_when_upright(image: Image.Image) -> tuple[int, int]:
    """Return the width and height in pixels of an opened image as it is displayed.

    Raises Failure (InvalidInput) where it is truncated or damaged.
    """
    width, height = image.size
    try:
        sideways = image.getexif().get(ExifTags.Base.Orientation) in _SIDEWAYS
    except _DAMAGED_EXIF:
        return width, height
    except _DAMAGE as error:
        raise unusable_file(f"The image is truncated or damaged: {error}.") from error
    return (height, width) if sideways else (width, height)


def read_image(path: Path, budget: PixelBudget) -> Image.Image:
    """Decode a probed image as RGB, upright, scaled down to `budget`.

    Transparency becomes white, as in the reference implementation (qwen-vl-utils); EXIF orientation is applied.
    Raises Failure (InvalidInput) where it is truncated or damaged.
    """
    with open_image(path) as image:
        if image.format == "JPEG":  # is decoded at 1/2, 1/4 or 1/8 of its size where that is enough
            image.draft("RGB", fit(*image.size, 1, budget))
        upright = decode_upright(image)
    return upright.resize(fit(*upright.size, 1, budget), Image.Resampling.BICUBIC)


def decode_upright(image: Image.Image) -> Image.Image:
    """Return an opened image as upright RGB at its own size.

    Raises Failure (InvalidInput) where it is truncated or damaged.
    """
    try:
        image.load()
        with suppress(*_DAMAGED_EXIF):
            ImageOps.exif_transpose(image, in_place=True)  # first: a picture that is converted may lose its EXIF data
        return _as_rgb(image)
    except _DAMAGE as error:
        raise unusable_file(f"The image is truncated or damaged: {error}.") from error


def _as_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):  # 16 bits a pixel, which Pillow would clip instead of scale
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)).convert("RGB")
    if not image.has_transparency_data:
        return image.convert("RGB")
    white = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(white, image.convert("RGBA")).convert("RGB")
