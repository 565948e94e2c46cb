"""Videos that engines wrote get their index first, their exact frame rate and sound as long as the picture."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.media import WantedVideo, check_video, rewrite_video
from cosmos_batch.media.rewriting import read_sound
from tests.support import media_files
from tests.support.mp4 import heard, pictures, read_mp4

NTSC = Fraction(30000, 1001)


def video_of_an_engine(path: Path, fps: int = 29, seconds: float = 2.0, rate: int = 48_000) -> Path:
    """Write a video as engines do: 29.97 cut to 29, the index at the end, sound longer than the picture."""
    with av.open(str(path), "w") as container:
        video: Any = container.add_stream("libx264", rate=fps, options={"preset": "ultrafast"})
        video.width, video.height, video.pix_fmt = 96, 64, "yuv420p"
        sound: Any = container.add_stream("aac", rate=rate, layout="stereo")
        for index in range(13):
            frame = av.VideoFrame.from_ndarray(np.full((64, 96, 3), 10 + 15 * index, np.uint8), format="rgb24")
            frame.pts, frame.time_base = index, Fraction(1, fps)
            container.mux(video.encode(frame))
        wave = np.sin(2 * np.pi * 440 * np.arange(round(seconds * rate)) / rate).astype(np.float32) / 2
        piece = av.AudioFrame.from_ndarray(np.tile(wave, (2, 1)), format="fltp", layout="stereo")
        piece.sample_rate, piece.pts, piece.time_base = rate, 0, Fraction(1, rate)
        container.mux(sound.encode(piece))
        for stream in (video, sound):
            container.mux(stream.encode())
    return path


@pytest.mark.parametrize("rate", [48_000, 44_100])
def test_a_video_of_an_engine_has_its_index_first_and_its_exact_frame_rate_when_rewritten(
    tmp_path: Path, rate: int
) -> None:
    source = video_of_an_engine(tmp_path / "engine.mp4", rate=rate)
    assert read_mp4(source).boxes[-1] == "moov" and read_mp4(source).fps == 29, "the index is last, the frame rate cut"
    rewrite_video(source, tmp_path / "a.mp4", NTSC, sound=True)
    properties = read_mp4(tmp_path / "a.mp4")
    assert (properties.profile, properties.frames, properties.fps, properties.sound) == (
        "High",
        13,
        NTSC,
        ("aac", 48_000, 2),
    )
    assert properties.boxes.index("moov") < properties.boxes.index("mdat")
    assert (
        properties.sound_seconds == pytest.approx(properties.seconds, abs=0.001) == pytest.approx(13 / NTSC, abs=0.001)
    )
    assert check_video(tmp_path / "a.mp4", WantedVideo(96, 64, 13, NTSC, sound=True)) == [
        "All frames of the video are of one colour each."
    ]
    levels = pictures(tmp_path / "a.mp4").mean(axis=(1, 2, 3))
    assert levels == pytest.approx([10 + 15 * index for index in range(13)], abs=4)
    samples = heard(tmp_path / "a.mp4")[0, 2_000:18_000]
    assert np.argmax(np.abs(np.fft.rfft(samples))) * 48_000 / len(samples) == pytest.approx(440, abs=4)


def test_colours_are_kept_where_the_file_has_no_colour_tags(tmp_path: Path) -> None:
    colour = (200, 60, 30)
    source = media_files.video(
        tmp_path / "engine.mp4", frames=3, paint=lambda _: np.full((128, 160, 3), colour, np.uint8)
    )
    assert read_mp4(source).colours != (1, 1, 1, 1)
    rewrite_video(source, tmp_path / "a.mp4", Fraction(24), sound=False)
    assert read_mp4(tmp_path / "a.mp4").colours == (1, 1, 1, 1)
    assert np.abs(pictures(tmp_path / "a.mp4").astype(int) - colour).max() <= 4


def test_unrequested_sound_is_left_out(tmp_path: Path) -> None:
    rewrite_video(video_of_an_engine(tmp_path / "engine.mp4"), tmp_path / "a.mp4", NTSC, sound=False)
    assert read_mp4(tmp_path / "a.mp4").sound is None


def test_sound_begins_with_the_picture(tmp_path: Path) -> None:
    """An encoder adds about a thousand samples before the first one; they must not be added twice."""
    properties = read_sound(video_of_an_engine(tmp_path / "engine.mp4"))
    assert properties is not None
    assert properties.samples.shape[1] == pytest.approx(2 * 48_000, abs=2048), "the encoder pads its last packets"
    wave = np.sin(2 * np.pi * 440 * np.arange(24_000) / 48_000) / 2
    assert np.corrcoef(properties.samples[0, 4_000:20_000], wave[4_000:20_000])[0, 1] > 0.99


def test_missing_sound_is_refused_by_the_check(tmp_path: Path) -> None:
    source = media_files.video(tmp_path / "engine.mp4")
    assert read_sound(source) is None
    rewrite_video(source, tmp_path / "a.mp4", Fraction(10), sound=True)
    with pytest.raises(Failure, match="no sound"):
        check_video(tmp_path / "a.mp4", WantedVideo(160, 128, 40, Fraction(10), sound=True))


@pytest.mark.parametrize(
    "make", [media_files.png_named_mp4, media_files.empty, media_files.mp4_with_damage, media_files.mp4_without_index]
)
def test_a_file_that_is_no_video_fails_the_engine_and_writes_no_file(tmp_path: Path, make: Any) -> None:
    with pytest.raises(Failure) as refused:
        rewrite_video(make(tmp_path), tmp_path / "a.mp4", NTSC, sound=True)
    assert refused.value.error.code == "EngineFailed"
    assert not (tmp_path / "a.mp4").exists()


def test_an_image_is_no_video(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="an image; a video was asked for"):
        rewrite_video(media_files.image(tmp_path / "a.png"), tmp_path / "a.mp4", NTSC, sound=False)
