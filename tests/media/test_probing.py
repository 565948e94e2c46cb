"""Files that cannot be used are refused with a message that says why."""

import functools
import struct
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from PIL import Image

from cosmos_batch.catalogue.formats import IMAGE_EXTENSIONS, VIDEO_EXTENSIONS
from cosmos_batch.catalogue.pixel_budget import PixelBudget
from cosmos_batch.contract.error import Failure
from cosmos_batch.media import (
    ImageInfo,
    VideoInfo,
    decoding,
    images,
    note_on_name,
    probe,
    read_image,
    sample_frames,
    timeline,
)
from cosmos_batch.media.signatures import UNKNOWN, identify
from tests.support import media_files


@pytest.mark.parametrize(("make", "word"), media_files.REFUSED.values(), ids=media_files.REFUSED)
def test_bad_files_are_refused(tmp_path: Path, make: Callable[[Path], Path], word: str) -> None:
    with pytest.raises(Failure) as refused:
        probe(make(tmp_path))
    assert refused.value.error.code == "InvalidInput"
    assert word in refused.value.error.message
    assert refused.value.error.remedy
    assert not refused.value.error.retryable


@pytest.mark.parametrize("extension", VIDEO_EXTENSIONS)
def test_every_video_extension_is_accepted(tmp_path: Path, extension: str) -> None:
    info = probe(media_files.video(tmp_path / f"clip{extension}"))
    assert isinstance(info, VideoInfo)
    assert (info.width, info.height) == (160, 128)
    assert len(info.timeline.times) == 40
    assert info.timeline.duration == pytest.approx(4.0)
    assert info.timeline.fps == pytest.approx(media_files.FPS)


@pytest.mark.parametrize("extension", IMAGE_EXTENSIONS)
def test_every_image_extension_is_accepted(tmp_path: Path, extension: str) -> None:
    assert probe(media_files.image(tmp_path / f"picture{extension}")) == ImageInfo(64, 48)


def test_extension_in_capitals_is_the_same(tmp_path: Path) -> None:
    assert probe(media_files.image(tmp_path / "picture.png").rename(tmp_path / "PICTURE.PNG")) == ImageInfo(64, 48)


@pytest.mark.parametrize(
    ("written", "named"), [(".mp4", ".mov"), (".mov", ".mp4"), (".mkv", ".webm"), (".mp4", ".m4v"), (".jpg", ".jpeg")]
)
def test_a_format_may_have_several_extensions(tmp_path: Path, written: str, named: str) -> None:
    make = media_files.image if written == ".jpg" else media_files.video
    path = make(tmp_path / f"a{written}").rename(tmp_path / f"b{named}")
    assert probe(path) and note_on_name(path) is None


@pytest.mark.parametrize(
    ("make", "is_video", "content", "named"),
    [
        (media_files.png_named_jpg, False, "a PNG image", ".jpg"),
        (media_files.png_named_mp4, False, "a PNG image", ".mp4"),
        (media_files.gif_named_mp4, True, "a GIF", ".mp4"),
        (lambda folder: media_files.video(folder / "a.mp4").rename(folder / "b.avi"), True, "an MP4 or Qui", ".avi"),
        (lambda folder: media_files.animated_webp(folder).rename(folder / "b.gif"), True, "an animated WebP", ".gif"),
        (lambda folder: media_files.heic(folder / "b.jpg"), False, "a HEIC image", ".jpg"),
    ],
)
def test_a_file_is_read_as_its_content_and_a_note_names_both(
    tmp_path: Path, make: Callable[[Path], Path], is_video: bool, content: str, named: str
) -> None:
    path = make(tmp_path)
    assert isinstance(probe(path), VideoInfo if is_video else ImageInfo)
    note = note_on_name(path)
    assert note is not None and note.startswith(f"The content is {content}") and f"ends in {named}:" in note


def test_an_animated_webp_is_a_video_with_the_times_of_its_pictures(tmp_path: Path) -> None:
    path = media_files.animated_webp(tmp_path)
    info = probe(path)
    assert isinstance(info, VideoInfo) and info.timeline.times.tolist() == pytest.approx([0.0, 0.1, 0.2])
    clip = sample_frames(path, info, 10, PixelBudget(32 * 32 * 8, 32 * 32, 32), max_frames=8)
    red, blue, green = clip.frames[:, 16, 16].astype(int)
    assert red[0] > 200 and blue[2] > 200 and green[1] > 100 and max(red[1:]) < 60


def test_an_animated_webp_with_too_many_pixels_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = media_files.animated_webp(tmp_path)
    monkeypatch.setattr("cosmos_batch.media.animations.PIXEL_LIMIT", 3 * 32 * 32 - 1)
    with pytest.raises(Failure, match="3 pictures of 32 x 32"):
        probe(path)


def test_heic_is_refused_with_words_where_its_decoder_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = media_files.heic(tmp_path / "phone.heic")
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    images.register_heic.cache_clear()
    with pytest.raises(Failure, match="HEIC, which cannot be decoded here"):
        probe(path)


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8, 0.9, 0.95, 0.99])
def test_a_truncated_video_is_refused_wherever_it_was_cut(tmp_path: Path, share: float) -> None:
    with pytest.raises(Failure, match="truncated"):
        probe(media_files.mp4_without_its_end(tmp_path, share))


@pytest.mark.parametrize("extension", [".mkv", ".webm", ".avi"])
def test_other_truncated_containers_are_refused(tmp_path: Path, extension: str) -> None:
    whole = media_files.video(tmp_path / f"whole{extension}")
    with pytest.raises(Failure, match="truncated"):
        probe(media_files.cut(whole, tmp_path / f"cut{extension}"))


def test_huge_png_is_refused_by_its_header_alone(tmp_path: Path) -> None:
    """The header states 400 million pixels and there are none. Decoding first would give another error."""
    header = struct.pack(">IIBBBBB", 20_000, 20_000, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + header
    path = tmp_path / "bomb.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk)))
    with path.open("ab") as file:
        file.write(struct.pack(">I", 0) + b"IDAT" + struct.pack(">I", zlib.crc32(b"IDAT")))
    with pytest.raises(Failure, match="20,000 x 20,000"):
        probe(path)


def test_image_within_both_limits_but_too_many_pixels_is_refused(tmp_path: Path) -> None:
    Image.new("1", (8_001, 8_001)).save(tmp_path / "big.png")
    with pytest.raises(Failure, match="8,001 x 8,001"):
        probe(tmp_path / "big.png")


def test_video_over_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = media_files.video(tmp_path / "big.mp4")
    for module in ("decoding", "probing"):
        monkeypatch.setattr(f"cosmos_batch.media.{module}.VIDEO_PIXEL_LIMIT", 160 * 128 - 1)
    with pytest.raises(Failure, match="160 x 128"):
        probe(path)


def test_video_of_more_than_a_day_is_refused(tmp_path: Path) -> None:
    day = timeline.DURATION_LIMIT // 2  # two frames last that long
    for seconds in (day, day + 3600):
        path = media_files.video(
            tmp_path / f"{seconds}.mp4", frames=2, fps=1, pts=lambda index, step=seconds: index * step
        )
        if seconds == day:
            assert isinstance(probe(path), VideoInfo)
        else:
            with pytest.raises(Failure, match=r"26\.0 hours long; allowed are 24"):
                probe(path)


def test_a_file_that_takes_too_long_to_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = media_files.video(tmp_path / "slow.mp4")
    monkeypatch.setattr(decoding, "DECODE_SECONDS", -1)
    with pytest.raises(Failure, match="minutes to decode"):
        probe(path)


def test_video_with_too_many_frames_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = media_files.video(tmp_path / "many.mp4")
    monkeypatch.setattr("cosmos_batch.media.timeline.FRAME_LIMIT", 39)
    with pytest.raises(Failure, match="more than 39 frames"):
        probe(path)


def test_a_playlist_opens_no_other_file(tmp_path: Path) -> None:
    path = tmp_path / "list.mp4"
    path.write_text("#EXTM3U\n#EXTINF:10,\nfile:///etc/passwd\n")
    with pytest.raises(Failure, match="playlist"):
        probe(path)


def test_a_jpeg_with_a_preview_inside_is_still_an_image(tmp_path: Path) -> None:
    pictures = [Image.new("RGB", (64, 48), colour) for colour in ("red", "blue")]
    pictures[0].save(tmp_path / "phone.jpg", format="MPO", save_all=True, append_images=pictures[1:])
    assert probe(tmp_path / "phone.jpg") == ImageInfo(64, 48)


@given(st.binary(max_size=600))
def test_any_bytes_have_a_format(head: bytes) -> None:
    assert identify(head).label


@given(st.text(min_size=1).map(str.encode))
def test_text_is_never_media(text: bytes) -> None:
    assert identify(text).medium is None or identify(text) is not UNKNOWN


@functools.cache
def whole_file(extension: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        if extension == "animated.webp":
            return media_files.animated_webp(Path(folder)).read_bytes()
        path = Path(folder) / f"whole{extension}"
        written = media_files.video(path, frames=10) if extension in media_files.CODECS else media_files.image(path)
        return written.read_bytes()


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    extension=st.sampled_from(
        [".mp4", ".mkv", ".avi", ".ts", ".gif", ".png", ".jpg", ".webp", ".heic", "animated.webp"]
    ),
    seed=st.integers(0, 2**32),
)
@example(extension=".avi", seed=880910)  # an index that leads nowhere
def test_damaged_files_are_read_or_refused(tmp_path: Path, extension: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    data = bytearray(whole_file(extension))
    for position in random.integers(0, len(data), random.integers(1, 20)):
        data[position] = random.integers(0, 256)
    path = tmp_path / f"input{extension}"
    path.write_bytes(data[: random.integers(len(data) // 2, len(data) + 1)] if seed % 2 else data)
    budget = PixelBudget(64 * 64 * 8, 64 * 64, 32)
    try:
        info = probe(path)
        if isinstance(info, ImageInfo):
            read_image(path, budget)
        else:
            sample_frames(path, info, 4, budget, max_frames=8)
    except Failure as refused:
        assert refused.error.code == "InvalidInput"


@pytest.mark.parametrize("codec", ["libx264", "libx265", "libvpx-vp9"])
def test_a_matroska_file_whose_clock_starts_later_is_whole(tmp_path: Path, codec: str) -> None:
    """FFmpeg writes the end of its last frame as its duration, which begins at 0 whenever the first frame is shown."""
    path = media_files.video(tmp_path / "later.mkv", codec=codec, pts=lambda index: index + 50)
    info = probe(path)
    assert isinstance(info, VideoInfo)
    assert (len(info.timeline.times), round(info.timeline.start, 1), info.timeline.duration) == (40, 5.0, 4.0)
