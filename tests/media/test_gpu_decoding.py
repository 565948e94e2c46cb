"""The GPU decodes large videos only, and a clip's frames are the same whether the GPU or the CPU decoded it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import pytest
from av.codec.hwaccel import HWAccel

from cosmos_batch.catalogue.pixel_budget import PixelBudget
from cosmos_batch.contract.error import Failure
from cosmos_batch.media import (
    Clip,
    VideoInfo,
    decoding,
    frame_sampling,
    gpu_decoding,
    probe,
    sample_frames,
)
from cosmos_batch.media.frame_scaling import FrameScaler
from cosmos_batch.media.timeline import Timeline
from tests.support import media_files

BUDGET = PixelBudget(16_000_000, 1_000_000, 32)
H264 = "bframes=8:b-pyramid=none:b-adapt=0"


def video(tmp_path: Path, codec: str = "libx264") -> Path:
    options = {"x264-params": H264} if codec == "libx264" else {}
    return media_files.video(tmp_path / "clip.mp4", frames=120, width=72, height=40, codec=codec, codec_options=options)


def sample(path: Path, *, on_gpu: bool = True) -> Clip:
    info = probe(path)
    assert isinstance(info, VideoInfo)
    return sample_frames(path, info, 1, BUDGET, max_frames=768, on_gpu=on_gpu)


@pytest.fixture
def decoders(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have small videos decoded on the GPU too, and return the list of the decoders that were tried."""
    tried: list[str] = []
    once = frame_sampling._decode_once

    def noted(*arguments: Any) -> Any:
        tried.append("gpu" if arguments[-1].on_gpu else "cpu")
        return once(*arguments)

    monkeypatch.setattr(gpu_decoding, "LEAST_PIXELS", 1)
    monkeypatch.setattr(frame_sampling, "_decode_once", noted)
    return tried


@pytest.fixture
def cpu_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the CPU decode in place of the GPU, so that the code for the GPU runs on a machine without one."""
    monkeypatch.setattr(frame_sampling, "gpu_decoder", lambda: None)


def test_the_gpu_decodes_only_on_request(tmp_path: Path, decoders: list[str], cpu_in_its_place: None) -> None:
    path = video(tmp_path)
    exact, quick = sample(path, on_gpu=False), sample(path)
    assert decoders == ["cpu", "gpu"]
    assert np.array_equal(quick.frames, exact.frames)
    assert exact.notes == () and quick.notes == (frame_sampling.DECODED_BY_GPU,)


def test_a_probed_clip_is_opened_once_more(
    tmp_path: Path, decoders: list[str], cpu_in_its_place: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening one of 1920 x 1080 takes 0.04 s of a core, as much as reading all its packets."""
    opened, real = [], frame_sampling.open_video
    monkeypatch.setattr(frame_sampling, "open_video", lambda *given: opened.append(given) or real(*given))
    sample(video(tmp_path))
    assert decoders == ["gpu"] and len(opened) == 1


def test_small_videos_are_decoded_by_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_sampling, "gpu_decoder", lambda: pytest.fail("72 x 40 pixels need no GPU"))
    assert sample(video(tmp_path)).notes == ()


def test_the_cpu_decodes_a_clip_for_which_the_gpu_decoder_cannot_be_opened(
    tmp_path: Path, decoders: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frame_sampling, "gpu_decoder", lambda: HWAccel("cuda", device="99"))  # there is no such GPU
    clip = sample(video(tmp_path))
    assert decoders == ["gpu", "cpu"]
    assert len(clip.frames) == 12 and clip.notes == ()


@pytest.mark.parametrize("codec", ["libx264", "libx265"])
def test_the_cpu_decodes_a_video_again_if_frames_are_missing_and_notes_the_damage(
    tmp_path: Path, decoders: list[str], cpu_in_its_place: None, codec: str
) -> None:
    path = video(tmp_path, codec)
    data = bytearray(path.read_bytes())
    with av.open(str(path)) as container:
        for packet in container.demux(video=0):
            if packet.pts is not None and packet.pos is not None and 3.35 <= packet.pts * packet.time_base < 4.25:
                data[packet.pos : packet.pos + packet.size] = bytes(packet.size)  # zeros are no valid data of the codec
    path.write_bytes(data)
    if codec == "libx265":  # its damage spreads to a frame that is wanted
        with pytest.raises(Failure, match="damaged: it cannot be decoded at"):
            sample(path)
        assert decoders[:2] == ["gpu", "cpu"]
        return
    after_gpu, exact = sample(path), sample(path, on_gpu=False)
    assert decoders[:2] == ["gpu", "cpu"]
    assert after_gpu.notes == exact.notes and np.array_equal(after_gpu.frames, exact.frames)
    assert "damaged" in exact.notes[0]


def test_a_machine_without_a_gpu_has_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_decoding, "gpu_decoder", lambda: HWAccel("cuda", device="99"))
    gpu_decoding.device_of_this_process.cache_clear()
    assert gpu_decoding.device_of_this_process() is None
    gpu_decoding.device_of_this_process.cache_clear()


def test_a_decoder_on_the_gpu_has_one_thread(tmp_path: Path) -> None:
    """Several threads would each hold frames in the GPU's memory, and wait for the same decoder."""
    path = video(tmp_path, "mpeg4")  # a codec for which FFmpeg starts no device
    with decoding.open_video(path) as (_, stream):
        assert stream.codec_context.thread_count == decoding.DECODER_THREADS
    with decoding.open_video(path, HWAccel("vaapi")) as (_, stream):
        assert stream.codec_context.thread_count == 1


@pytest.mark.parametrize(
    ("width", "height", "frames", "pixel_format", "suits"),
    [
        (1920, 1080, 300, "yuv420p", True),
        (640, 480, 120, "yuv420p", False),  # a CPU has decoded it before the GPU's decoder has started
        (1920, 1080, 300, "yuv420p10le", False),  # the GPU gives more bits of it than `nv12` has
        (1920, 1080, 300, "yuvj420p", False),  # `nv12` does not say that its values have the full range
        (1920, 1080, 300, None, True),  # only its first frame will tell
    ],
)
def test_the_gpu_decodes_large_videos_of_eight_bits(
    width: int, height: int, frames: int, pixel_format: str | None, suits: bool
) -> None:
    times = np.arange(400) / 30
    timeline = Timeline(times, keys=np.zeros(1), start=0.0, duration=400 / 30)
    for codec in ("h264", "hevc", "mpeg4"):
        info = VideoInfo(width, height, codec, pixel_format, timeline)
        part = (float(times[50]), float(times[49 + frames]))
        assert gpu_decoding.suits_gpu(info, *part) == (suits and codec != "mpeg4")


@pytest.mark.parametrize(("width", "height", "same"), [(160, 96, True), (352, 192, True), (320, 180, False)])
def test_frames_in_the_gpus_layout_have_the_same_pixels_unless_they_keep_their_size(
    width: int, height: int, same: bool
) -> None:
    """The GPU's `nv12` interleaves the two planes of colors that a CPU's `yuv420p` keeps apart."""
    noise = np.random.default_rng(0).integers(0, 256, (180, 320, 3), np.uint8)
    planar = av.VideoFrame.from_ndarray(noise, format="rgb24").reformat(format="yuv420p")
    values = planar.to_ndarray()
    colors = values[180:].reshape(2, 90, 160).transpose(1, 2, 0).reshape(90, 320)
    interleaved = av.VideoFrame.from_ndarray(np.concatenate([values[:180], colors]), format="nv12")
    first, second = (FrameScaler(width, height).pixels(frame) for frame in (planar, interleaved))
    assert np.array_equal(first, second) == same
    assert frame_sampling._scales_alike(from_gpu("nv12"), width, height) == same


@pytest.mark.parametrize(("layout", "color_range"), [("p010le", 1), ("nv12", 2), ("yuv444p", 1)])
def test_frames_whose_first_one_shows_that_the_gpu_does_not_suit_are_left_to_the_cpu(
    layout: str, color_range: int
) -> None:
    assert not frame_sampling._scales_alike(from_gpu(layout, color_range), 160, 96)


def from_gpu(layout: str, color_range: int = 1) -> Any:
    """Return a stand-in for a frame of 320 x 180 in a GPU's memory; FFmpeg's `color_range` of 2 is the full one."""
    return SimpleNamespace(sw_format=SimpleNamespace(name=layout), width=320, height=180, color_range=color_range)
