"""Images are read as RGB, upright, and no larger than the budget."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cosmos_batch.catalogue.limits import IMAGE_FILE_LIMIT
from cosmos_batch.catalogue.pixel_budget import PixelBudget
from cosmos_batch.contract.error import Failure
from cosmos_batch.media import probe, read_image, upright_size
from cosmos_batch.media.headers import read_header
from tests.support import media_files

BUDGET = PixelBudget(256 * 256, 256 * 256, 32)
ORIENTATION = 0x0112  # the EXIF tag


def test_a_large_image_is_scaled_down(tmp_path: Path) -> None:
    image = read_image(media_files.image(tmp_path / "a.jpg", 4000, 2000), BUDGET)
    assert image.size == (352, 160)
    assert image.mode == "RGB"


def test_a_small_image_keeps_its_size(tmp_path: Path) -> None:
    assert read_image(media_files.image(tmp_path / "a.png", 64, 96), BUDGET).size == (64, 96)


def test_a_phones_image_is_read_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[ORIENTATION] = 6  # the upper side of the scene is stored on the left
    media_files.image(tmp_path / "a.jpg", 128, 64, exif=exif)
    assert read_image(tmp_path / "a.jpg", BUDGET).size == (64, 128)


@pytest.mark.parametrize("name", ["transparent.png", "transparent.webp", "sixteen_bits.png"])
def test_an_image_that_is_converted_is_read_upright(tmp_path: Path, name: str) -> None:
    """Transparency and 16 bits take ways of their own to RGB, on which Pillow drops the EXIF data."""
    exif = Image.Exif()
    exif[ORIENTATION] = 6  # the upper side of the scene is stored on the left
    stored = np.full((64, 128), 0x4000, np.uint16)
    stored[:, :64] = 0xC000
    picture = Image.fromarray(stored)
    if name != "sixteen_bits.png":
        picture = Image.merge(
            "RGBA", [Image.fromarray((stored >> 8).astype(np.uint8))] * 3 + [Image.new("L", (128, 64), 250)]
        )
    picture.save(tmp_path / name, exif=exif)
    image = read_image(tmp_path / name, BUDGET)
    assert image.size == (64, 128) == upright_size(tmp_path / name)
    pixels = np.asarray(image)
    assert pixels[10, 32, 0] > 180 and pixels[118, 32, 0] < 80


def test_a_phones_heic_is_read_upright(tmp_path: Path) -> None:
    image = read_image(media_files.heic(tmp_path / "a.heic", 128, 64, orientation=6), BUDGET)
    top, bottom = (image.getpixel((32, height)) for height in (10, 118))
    assert image.size == (64, 128)
    assert top[2] > 200 and bottom[0] > 200, "what was on the left is at the top"


def test_transparency_becomes_white(tmp_path: Path) -> None:
    Image.new("RGBA", (64, 64), (255, 0, 0, 0)).save(tmp_path / "a.png")
    assert read_image(tmp_path / "a.png", BUDGET).getpixel((5, 5)) == (255, 255, 255)


def test_sixteen_bits_are_scaled_not_clipped(tmp_path: Path) -> None:
    Image.fromarray(np.full((64, 64), 0x8000, np.uint16)).save(tmp_path / "a.png")
    assert read_image(tmp_path / "a.png", BUDGET).getpixel((5, 5)) == (128, 128, 128)


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "CMYK"])
def test_every_mode_becomes_rgb(tmp_path: Path, mode: str) -> None:
    path = tmp_path / ("a.jpg" if mode == "CMYK" else "a.png")
    Image.new("RGB", (64, 64), "white").convert(mode).save(path)
    red, green, blue = read_image(path, BUDGET).getpixel((5, 5))
    assert min(red, green, blue) > 250


def test_a_cut_image_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="truncated"):
        read_image(media_files.cut_jpg(tmp_path), BUDGET)


@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.webp", "a.heic", "moving.webp"])
def test_an_image_of_too_many_bytes_is_refused_unread(tmp_path: Path, name: str) -> None:
    """The plugins for WebP and HEIC read a file whole: one of 3 GB took 6 GB of memory, and an animated one 19 GB."""
    if name == "moving.webp":
        media_files.animated_webp(tmp_path)
    else:
        (media_files.heic if name == "a.heic" else media_files.image)(tmp_path / name)
    os.truncate(tmp_path / name, IMAGE_FILE_LIMIT + 1)
    with (tmp_path / name).open("rb") as file:
        for read in (lambda: probe(tmp_path / name), lambda: read_header(file)):
            with pytest.raises(Failure, match="536,870,913 bytes"):
                read()


def _heic_with_a_wrong_length(path: Path) -> Path:
    content = media_files.heic(path).read_bytes()
    start = content.index(b"mdat") + len(b"mdat")
    path.write_bytes(content[:start] + b"\xff" + content[start + 1 :])
    return path


def test_damage_within_a_heic_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="truncated or damaged"):
        read_image(_heic_with_a_wrong_length(tmp_path / "a.heic"), BUDGET)


@pytest.mark.parametrize("exif", [b"Exif\0\0no EXIF", b"Exif\0\0MM\0*\0\0"])
@pytest.mark.parametrize("name", ["a.png", "a.webp"])
def test_damaged_exif_data_turn_nothing(tmp_path: Path, name: str, exif: bytes) -> None:
    path = media_files.image(tmp_path / name, 128, 64, exif=exif)
    assert read_image(path, BUDGET).size == upright_size(path) == (128, 64)


def test_a_truncated_image_is_refused_where_its_size_is_asked_for(tmp_path: Path) -> None:
    path = media_files.image(tmp_path / "a.png", 128, 64)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(Failure, match="truncated or damaged"):
        upright_size(path)
