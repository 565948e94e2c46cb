"""Conversion of videos that browsers do not play."""

from fractions import Fraction
from io import BytesIO
from pathlib import Path
from threading import Event

import av
import pytest
from PIL import Image
from starlette.testclient import TestClient

from cosmos_batch.console import previews
from cosmos_batch.console.collection import MediaFile
from cosmos_batch.console.media_facts import read_facts
from cosmos_batch.console.previews import Previews
from cosmos_batch.console.run_backend import RefusalError
from cosmos_batch.console.transcoding import write_preview
from cosmos_batch.media import VideoInfo, probe
from tests.console.conftest import Open
from tests.support import media_files
from tests.support.console_documents import write_answer


@pytest.mark.parametrize(
    ("name", "codec", "pixel_format", "plays"),
    [
        ("a.mp4", "libx264", "yuv420p", True),
        ("a.mov", "libx264", "yuv420p", True),
        ("a.webm", "libvpx-vp9", "yuv420p", True),
        ("a.mp4", "libx264", "yuv444p", False),
        ("a.mov", "prores_ks", "yuv422p10le", False),
        ("a.mkv", "libx264", "yuv420p", False),
        ("a.avi", "mpeg4", "yuv420p", False),
        ("a.mp4", "libx265", "yuv420p", False),
        ("a.ts", "libx264", "yuv420p", False),
        ("a.gif", "gif", "pal8", False),
    ],
)
def test_only_what_browsers_do_not_play_has_an_obstacle(
    tmp_path: Path, name: str, codec: str, pixel_format: str, plays: bool
) -> None:
    path = media_files.video(tmp_path / name, frames=5, codec=codec, pixel_format=pixel_format)
    assert (read_facts(path).obstacle is None) == plays


def test_a_preview_has_each_frame_at_its_own_time_upright_and_with_square_pixels(tmp_path: Path) -> None:
    times = [0, 1, 2, 10, 11, 30]  # tenths of a second, beginning later in the file
    source = media_files.video(
        tmp_path / "a.mov", frames=6, pts=lambda index: times[index] + 7, rotation=90, width=160, height=128
    )
    shares: list[float] = []
    write_preview(source, tmp_path / "b.mp4", shares.append)
    info = probe(tmp_path / "b.mp4")
    assert isinstance(info, VideoInfo)
    assert info.timeline.times == pytest.approx([tenth / 10 for tenth in times], abs=0.001)
    assert (info.width, info.height, info.codec) == (128, 160, "h264")
    assert read_facts(tmp_path / "b.mp4").obstacle is None and read_facts(tmp_path / "b.mp4").offset == 0
    assert shares == sorted(shares) and shares[-1] > 0.5


def test_a_preview_of_hevc_plays_and_has_the_same_times(tmp_path: Path) -> None:
    source = media_files.video(tmp_path / "a.mp4", frames=6, codec="libx265")
    assert read_facts(source).codec == "HEVC"
    write_preview(source, tmp_path / "b.mp4", lambda _: None)
    info, original = probe(tmp_path / "b.mp4"), probe(source)
    assert isinstance(info, VideoInfo) and isinstance(original, VideoInfo)
    assert info.codec == "h264" and read_facts(tmp_path / "b.mp4").obstacle is None
    assert info.timeline.times == pytest.approx(original.timeline.times, abs=0.001)


def test_a_preview_of_pixels_that_are_not_square(tmp_path: Path) -> None:
    with av.open(str(tmp_path / "wide.mkv"), "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width, stream.height, stream.pix_fmt = 160, 128, "yuv420p"
        stream.codec_context.sample_aspect_ratio = Fraction(2, 1)
        for index in range(3):
            frame = av.VideoFrame(160, 128, "yuv420p")
            frame.pts = index
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    facts = read_facts(tmp_path / "wide.mkv")
    assert (facts.width, facts.height) == (320, 128)
    write_preview(tmp_path / "wide.mkv", tmp_path / "b.mp4", lambda _: None)
    info = probe(tmp_path / "b.mp4")
    assert (info.width, info.height) == (320, 128)


def test_an_image_that_browsers_do_not_show_is_a_jpeg(open_console: Open, tmp_path: Path) -> None:
    media_files.image(tmp_path / "a.heic", 400, 300)
    write_answer(tmp_path / "a.json", inputFile="a.heic")
    client = open_console(tmp_path)
    (media,) = client.get("/api/views/folder/items/1").json()["media"]
    assert media["url"] == "/api/views/folder/items/1/media/0/picture" and "HEIC" in media["previewReason"]
    picture = Image.open(BytesIO(client.get(media["url"]).content))
    assert (picture.format, picture.size) == ("JPEG", (400, 300))


@pytest.fixture
def converted(monkeypatch: pytest.MonkeyPatch) -> Event:
    """Provide an event that is set when the console has converted a video, or has failed to."""
    ended = Event()
    convert = Previews._convert

    def convert_and_tell(of: Previews, media: MediaFile, key: str) -> None:
        try:
            convert(of, media, key)
        finally:
            ended.set()

    monkeypatch.setattr(Previews, "_convert", convert_and_tell)
    return ended


def made_preview(client: TestClient, converted: Event) -> dict[str, str]:
    """Ask for the preview of the only document's video, and return its state when the conversion has ended."""
    url = "/api/views/folder/items/1/media/0/preview"
    assert client.get(url).json()["state"] == "running"
    converted.wait()
    state: dict[str, str] = client.get(url).json()
    return state


def test_a_preview_is_made_on_demand_and_served_by_ranges(open_console: Open, converted: Event, tmp_path: Path) -> None:
    media_files.video(tmp_path / "clip.avi")
    write_answer(tmp_path / "a.json", inputFile="clip.avi")
    client = open_console(tmp_path)
    (media,) = client.get("/api/views/folder/items/1").json()["media"]
    assert media["url"] is None and "AVI" in media["previewReason"]
    assert client.get("/api/views/folder/items/1/media/0/preview/file").status_code == 404
    state = made_preview(client, converted)
    assert state["state"] == "ready"
    part = client.get(state["url"], headers={"range": "bytes=4-7"})
    assert part.status_code == 206 and part.content == b"ftyp"


def test_a_video_that_cannot_be_converted(open_console: Open, converted: Event, tmp_path: Path) -> None:
    video = media_files.video(tmp_path / "whole.avi", frames=4)
    data = bytearray(video.read_bytes())
    with av.open(str(video)) as container:
        for packet in container.demux(video=0):
            if packet.size:
                data[packet.pos : packet.pos + packet.size + 8] = bytes(packet.size + 8)
    (tmp_path / "clip.avi").write_bytes(data)
    write_answer(tmp_path / "a.json", inputFile="clip.avi")
    state = made_preview(open_console(tmp_path), converted)
    assert state["state"] == "failed" and state["error"]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(28, "No space left on device"), "No space left on device"),
        (RefusalError("The token has expired.\nSign in again."), "The token has expired.\nSign in again."),
    ],
)
def test_a_conversion_that_fails_for_a_reason_which_may_pass_says_it_once_and_can_be_started_again(
    open_console: Open,
    converted: Event,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    reason: str,
) -> None:
    def fail(*_: object) -> None:
        raise error

    media_files.video(tmp_path / "clip.avi", frames=4)
    write_answer(tmp_path / "a.json", inputFile="clip.avi")
    client = open_console(tmp_path)
    with monkeypatch.context() as failing:
        failing.setattr(previews, "write_preview", fail)
        state = made_preview(client, converted)
    assert state["state"] == "failed" and reason in state["error"]
    converted.clear()
    assert made_preview(client, converted)["state"] == "ready"
