"""Headers of media files are read from a stream, without decoding."""

import io
from pathlib import Path

import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.media.headers import Header, read_header
from cosmos_batch.media.probing import ImageInfo, VideoInfo, probe
from tests.support.media_files import animated_webp, heic, wide_png


def test_a_video_says_its_size_and_length(clip: Path) -> None:
    known = probe(clip)
    assert isinstance(known, VideoInfo)
    with clip.open("rb") as file:
        header = read_header(file)
    assert (header.medium, header.width, header.height) == ("video", known.width, known.height)
    assert header.seconds == pytest.approx(known.timeline.duration, abs=0.1)


def test_an_image_says_its_size(picture: Path) -> None:
    known = probe(picture)
    assert isinstance(known, ImageInfo)
    with picture.open("rb") as file:
        assert read_header(file) == Header("image", known.width, known.height)


def test_what_phones_and_web_pages_make_says_its_size(tmp_path: Path) -> None:
    photo, animation = heic(tmp_path / "photo.heic", 64, 48), animated_webp(tmp_path)
    known = probe(animation)
    assert isinstance(known, VideoInfo)
    with photo.open("rb") as file:
        assert read_header(file) == Header("image", 64, 48)
    with animation.open("rb") as file:
        assert read_header(file) == Header("video", known.width, known.height, pytest.approx(0.3))


@pytest.mark.parametrize("content", [b"", b"text", b"#EXTM3U\n", b"\x00\x00\x00\x18ftypisom", b"\x89PNG\r\n\x1a\n"])
def test_damaged_headers_and_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    path.write_bytes(content)
    with path.open("rb") as file, pytest.raises(Failure):
        read_header(file)


def test_an_animation_that_ends_before_its_size_is_refused(tmp_path: Path) -> None:
    animation = animated_webp(tmp_path)
    animation.write_bytes(animation.read_bytes()[:30])
    with animation.open("rb") as file, pytest.raises(Failure, match="header is damaged or missing"):
        read_header(file)


def test_a_damaged_photo_of_a_phone_is_refused(tmp_path: Path) -> None:
    content = heic(tmp_path / "photo.heic", 64, 48).read_bytes()
    for length in range(12, 400, 4):
        with pytest.raises(Failure):
            read_header(io.BytesIO(content[:length]))


def test_an_image_that_no_worker_reads_is_refused(tmp_path: Path) -> None:
    with wide_png(tmp_path).open("rb") as file, pytest.raises(Failure, match="20,000 x 10 pixels"):
        read_header(file)
