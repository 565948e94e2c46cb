"""The right frames of a video are sampled, at the right size and time."""

import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from cosmos_batch.catalogue.pixel_budget import PixelBudget
from cosmos_batch.contract.error import Failure
from cosmos_batch.media import (
    Clip,
    VideoInfo,
    decoding,
    frame_sampling,
    probe,
    sample_frames,
    upright_size,
)
from tests.support import media_files

LARGE = PixelBudget(16_000_000, 1_000_000, 32)


def sample(path: Path, fps: float, budget: PixelBudget = LARGE, **options: Any) -> Clip:
    info = probe(path)
    assert isinstance(info, VideoInfo)
    return sample_frames(path, info, fps, budget, **{"max_frames": 768, **options})


@pytest.mark.parametrize(("fps", "count"), [(0.1, 1), (1, 4), (2, 8), (4, 16), (10, 40), (60, 40)])
def test_frames_are_sampled_at_the_rate(tmp_path: Path, fps: float, count: int) -> None:
    clip = sample(media_files.video(tmp_path / "clip.mp4"), fps)
    assert clip.frames.shape == (count, 128, 160, 3)
    assert clip.frames.dtype == np.uint8
    assert len(clip.indices) == count


@pytest.mark.parametrize("extension", media_files.CODECS)
def test_each_frame_is_the_frame_that_its_index_names(tmp_path: Path, extension: str) -> None:
    clip = sample(media_files.video(tmp_path / f"clip{extension}"), 4)
    assert [clip.indices[0], clip.indices[-1]] == [0, 39]
    for frame, index in zip(clip.frames, clip.indices, strict=True):
        assert frame.mean() == pytest.approx(media_files.grey_at(index, 40), abs=4)


def test_the_first_and_the_last_frame_are_always_sampled(tmp_path: Path) -> None:
    assert sample(media_files.video(tmp_path / "clip.mp4"), 0.5).indices == [0, 39]


def test_a_variable_rate_is_sampled_by_time(tmp_path: Path) -> None:
    """The video has 20 frames in the first two seconds, then one every half second, for ten seconds."""
    clip = sample(media_files.variable_mp4(tmp_path), 1)
    times = np.array(clip.indices) / clip.fps
    assert np.diff(times) == pytest.approx(np.full(len(times) - 1, times[1] - times[0]), abs=0.6)


def test_a_long_video_is_sampled_at_a_lower_rate(tmp_path: Path) -> None:
    clip = sample(media_files.video(tmp_path / "clip.mp4"), 10, max_frames=5)
    assert clip.indices == pytest.approx([0, 10, 19.5, 29, 39], abs=0.5)


@pytest.mark.parametrize("extension", media_files.CODECS)
@pytest.mark.parametrize(
    ("start", "end", "indices"),
    [
        (None, None, [0, 13, 26, 39]),
        (1, None, [10, 24.5, 39]),
        (None, 2, [0, 19]),
        (1, 3, [10, 29]),
        (1.04, 1.06, [10]),  # between two frames: the one on the screen
        (3.99, 99, [39]),
    ],
)
def test_a_part_keeps_the_videos_own_times(
    tmp_path: Path, extension: str, start: float | None, end: float | None, indices: list[int]
) -> None:
    clip = sample(media_files.video(tmp_path / f"clip{extension}"), 1, start=start, end=end)
    assert clip.indices == pytest.approx(indices, abs=0.5)
    for frame, index in zip(clip.frames, clip.indices, strict=True):
        assert frame.mean() == pytest.approx(media_files.grey_at(index, 40), abs=4)


@pytest.mark.parametrize(
    "extension", sorted(media_files.CODECS.keys() - {".gif"})
)  # of a GIF only the first frame is a key
def test_a_part_far_into_a_video_is_reached_by_a_seek(tmp_path: Path, extension: str) -> None:
    path = media_files.video(tmp_path / f"long{extension}", frames=600)  # a minute
    calls: list[int] = []
    clip = sample(path, 1, start=40, end=50, check=lambda: calls.append(1))
    assert (clip.indices[0], clip.indices[-1], len(clip.indices)) == (400, 499, 10)
    for frame, index in zip(clip.frames, clip.indices, strict=True):
        assert frame.mean() == pytest.approx(media_files.grey_at(index, 600), abs=4)
    assert len(calls) < 500, "what lies before was not decoded"


GROUPS = {
    "closed.mp4": {},
    "open.mp4": {"x264-params": "open-gop=1:bframes=3"},
    "open.mkv": {"x264-params": "open-gop=1:bframes=3"},
    "closed.webm": {"deadline": "realtime", "cpu-used": "8"},
    "closed.avi": {},
}
# Decoding must begin earlier than they say: the key frames of the first are none, the others' times are of decoding.
WRONG_GROUPS = {"refreshed.mp4": {"x264-params": "intra-refresh=1"}, "both-ways.avi": {"bf": "2"}, "h264.avi": {}}


def moving(index: int) -> np.ndarray:
    """Return a pattern of noise that moves with time."""
    noise = np.random.default_rng(0).integers(0, 255, (32, 200, 3), np.uint8)
    return np.roll(noise, index, axis=1)[:, :64].copy()


@pytest.mark.parametrize(("name", "options"), (GROUPS | WRONG_GROUPS).items(), ids=GROUPS | WRONG_GROUPS)
def test_seeking_over_unsampled_parts_gives_the_same_frames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, options: dict[str, str]
) -> None:
    path = media_files.video(
        tmp_path / name, frames=600, width=64, height=32, paint=moving, codec_options={"g": "30", **options},
        codec="libx264" if name == "h264.avi" else None,
    )  # fmt: skip
    packets: list[int] = []
    skipped = sample(path, 0.1, check=lambda: packets.append(1))
    monkeypatch.setattr(frame_sampling, "_NEAR_SECONDS", float("inf"))
    whole = sample(path, 0.1)
    assert skipped.indices == whole.indices and len(skipped.indices) == 6
    assert np.array_equal(skipped.frames, whole.frames)
    assert len(packets) < 250 or name in WRONG_GROUPS
    noted = ["were not decoded: if they are damaged" in note for note in skipped.notes]
    assert noted == ([True] if len(packets) < 250 else []) and whole.notes == (), "and no hole is found in a whole file"


# Settings of x264, frames per second, and whether frames are left out.
ENCODINGS = {
    "pyramid.mp4": ("bframes=3:b-adapt=0", 10, True),
    "flat.mp4": ("bframes=8:b-pyramid=none:b-adapt=0", 60, True),
    "open.mkv": ("open-gop=1:bframes=3:b-adapt=0", 10, True),
    "camera.ts": ("bframes=3:b-adapt=0", 10, True),
    "all-referenced.mp4": ("bframes=0", 10, False),
}


@pytest.mark.parametrize(
    ("name", "settings", "fps", "fewer"), [(name, *how) for name, how in ENCODINGS.items()], ids=ENCODINGS
)
def test_frames_that_no_other_refers_to_are_left_out_and_change_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, settings: str, fps: int, fewer: bool
) -> None:
    path = media_files.video(
        tmp_path / name, frames=120, fps=fps, width=64, height=32, paint=moving, codec="libx264",
        codec_options={"x264-params": settings},
    )  # fmt: skip
    decoded: list[int] = []
    monkeypatch.setattr(frame_sampling, "decode", counting(decoded))
    quick = sample(path, fps / 5)
    with_shortcut = len(decoded)
    monkeypatch.setattr(frame_sampling, "CODEC_WITH_REFERENCES", "none")
    whole = sample(path, fps / 5)
    assert quick.indices == whole.indices and len(quick.indices) == 24
    assert np.array_equal(quick.frames, whole.frames)
    assert quick.notes == whole.notes == ()
    assert len(decoded) - with_shortcut == 120
    assert with_shortcut < 100 if fewer else with_shortcut == 120


@pytest.mark.parametrize("damage", ["all", "behind the headers"])
@pytest.mark.parametrize("in_a_row", [1, 8])
def test_damage_in_frames_that_nothing_refers_to_is_noted_as_in_a_whole_decoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str, in_a_row: int
) -> None:
    """Damage behind a frame's headers shows only if the frame is decoded. One frame in a row is no gap to be noted."""
    path = media_files.video(
        tmp_path / "b.mp4", frames=120, width=64, height=32, paint=moving, codec="libx264",
        codec_options={"x264-params": f"bframes={in_a_row}:b-pyramid=none:b-adapt=0"},
    )  # fmt: skip
    data, noise = bytearray(path.read_bytes()), np.random.default_rng(0)
    with av.open(str(path)) as container:
        for packet in container.demux(video=0):
            if packet.pts is None or packet.pos is None or packet.time_base is None:
                continue
            if 3.35 <= packet.pts * packet.time_base < 4.25 and not refers(data[packet.pos + 4]):
                start, end = packet.pos + (0 if damage == "all" else 6), packet.pos + packet.size
                data[start:end] = noise.bytes(max(0, end - start))
    path.write_bytes(data)
    quick = sample(path, 1)
    monkeypatch.setattr(frame_sampling, "CODEC_WITH_REFERENCES", "none")
    whole = sample(path, 1)
    assert quick.notes == whole.notes
    assert len(whole.notes) == (in_a_row == 8)
    assert np.array_equal(quick.frames, whole.frames)


def refers(header: int) -> bool:
    """Return whether the first byte of an H.264 NAL unit says that other frames refer to it (`nal_ref_idc`)."""
    return header >> 5 & 3 > 0


def counting(decoded: list[int]) -> Callable[..., Iterator[Any]]:
    """Return `decode`, which now appends to a list for each frame that it yields."""

    def counted(*arguments: Any) -> Iterator[Any]:
        for frame in decoding.decode(*arguments):
            decoded.append(1)
            yield frame

    return counted


@pytest.mark.parametrize(
    ("name", "codec", "depth"),
    [("pyramid.mp4", "libx264", 2), ("pyramid.mkv", "libx264", 2), ("h265.mp4", "libx265", 2)],
)
def test_a_video_is_probed_and_opened_without_decoding_it_to_know_its_order(
    tmp_path: Path, name: str, codec: str, depth: int
) -> None:
    settings = {f"{codec.removeprefix('lib')}-params": "bframes=3:b-adapt=0:log-level=none"}
    path = media_files.video(tmp_path / name, width=64, height=32, paint=moving, codec=codec, codec_options=settings)
    info = probe(path)
    assert isinstance(info, VideoInfo) and info.timeline.reorder_depth == depth
    opened = []
    for known in (None, depth):
        with decoding.open_video(path, reorder_depth=known) as (container, stream):
            assert stream.codec_context.reorder_depth == depth
            layout = stream.codec_context.pix_fmt  # of H.264, FFmpeg knows it once it has decoded a frame
            opened.append((layout, [frame.to_ndarray() for frame in decoding.decode(container, stream, lambda: None)]))
    assert [layout for layout, _ in opened] == ["yuv420p", None if codec == "libx264" else "yuv420p"]
    assert info.pixel_format == opened[1][0]
    assert np.array_equal(opened[0][1], opened[1][1])


def test_a_wrong_order_of_frames_changes_no_frame(tmp_path: Path) -> None:
    path = media_files.video(tmp_path / "clip.mp4", paint=moving, width=64, height=32, codec_options={"bf": "3"})
    info = probe(path)
    assert isinstance(info, VideoInfo)
    for depth in (0, 16):
        wrong = replace(info, timeline=replace(info.timeline, reorder_depth=depth))
        assert np.array_equal(sample_frames(path, wrong, 10, LARGE, max_frames=768).frames, sample(path, 10).frames)


def test_frames_larger_than_the_limit_are_not_decoded_whatever_the_header_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = media_files.mp4_with_another_size_in_its_header(tmp_path, 16, 16)
    info = probe(path)
    assert isinstance(info, VideoInfo) and (info.width, info.height) == (16, 16)
    assert sample(path, 1).frames.shape[1:3] == (128, 160)
    monkeypatch.setattr(decoding, "VIDEO_PIXEL_LIMIT", 160 * 128 - 1)
    with pytest.raises(Failure, match="cannot be decoded"):
        sample(path, 1)


def test_times_that_claim_an_impossible_order_do_not_end_the_process(tmp_path: Path) -> None:
    """FFmpeg's decoder of H.264 aborts if it is told that more than 16 frames are out of order."""
    path = tmp_path / "clip.mp4"
    plain = media_files.video(tmp_path / "plain.mp4", frames=90, codec_options={"bf": "0"})
    with av.open(str(plain)) as source, av.open(str(path), "w") as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        packets = [packet for packet in source.demux(video=0) if packet.pts is not None]
        times = [packet.pts for packet in packets]
        for packet, pts in zip(packets, [*times[30:], *times[:30]], strict=True):
            packet.dts, packet.pts, packet.stream = packet.dts - times[-1], pts, stream
            target.mux(packet)
    info = probe(path)
    assert isinstance(info, VideoInfo) and info.timeline.reorder_depth > decoding.REORDER_LIMIT
    with decoding.open_video(path, reorder_depth=info.timeline.reorder_depth) as (_, opened):
        assert opened.codec_context.reorder_depth == decoding.REORDER_LIMIT
    with suppress(Failure):
        sample(path, 10)


@pytest.mark.parametrize(("codec", "believed"), [("libx264", 1), ("libx265", 0)])
def test_only_a_way_of_decoding_that_accepts_wanted_frames_only_believes_the_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str, believed: int
) -> None:
    path = media_files.video(tmp_path / "clip.mp4", codec=codec)
    info = probe(path)
    assert isinstance(info, VideoInfo)
    depths: list[int | None] = []

    def open_video(path: Path, hwaccel: object, depth: int | None) -> Any:
        depths.append(depth)
        return decoding.open_video(path, None, depth)

    def decode_at_times(*arguments: Any) -> Any:
        if frame_sampling.Shortcuts() not in arguments:
            raise frame_sampling._ShortcutFailed
        return whole(*arguments)

    whole = frame_sampling.decode_at_times
    monkeypatch.setattr(frame_sampling, "open_video", open_video)
    monkeypatch.setattr(frame_sampling, "decode_at_times", decode_at_times)
    assert len(sample(path, 2).frames) == 8
    assert depths == [info.timeline.reorder_depth] * believed + [None] * (3 - believed)


def test_h265_is_decoded_whole_because_its_frames_of_other_layers_may_refer_to_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = media_files.video(
        tmp_path / "clip.mp4",
        frames=60,
        width=64,
        height=64,
        codec="libx265",
        codec_options={"x265-params": "bframes=4"},
    )
    decoded: list[int] = []
    monkeypatch.setattr(frame_sampling, "decode", counting(decoded))
    sample(path, 1)
    assert len(decoded) == 60


def test_decoding_that_takes_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = media_files.video(tmp_path / "slow.mp4")
    info = probe(path)
    assert isinstance(info, VideoInfo)
    monkeypatch.setattr(decoding, "DECODE_SECONDS", -1)
    with pytest.raises(Failure, match="minutes to decode") as refused:
        sample_frames(path, info, 4, LARGE, max_frames=16)
    assert refused.value.error.code == "InvalidInput" and "start and end" in refused.value.error.remedy


def test_decoding_and_scaling_use_a_fixed_number_of_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads are counted by the kernel, not by FFmpeg's settings."""
    path, threads = media_files.video(tmp_path / "clip.mp4", width=640, height=640), Path("/proc/self/task")
    for more in (0, 3):
        monkeypatch.setattr(decoding, "DECODER_THREADS", more or 1)
        before, most = len(list(threads.iterdir())), [0]
        sample(path, 4, check=lambda most=most: most.append(len(list(threads.iterdir()))))
        assert max(most) == before + more


def test_every_video_that_can_be_sampled_has_an_upright_size(tmp_path: Path) -> None:
    """The first packet is damaged, and both functions skip it."""
    path = media_files.video(tmp_path / "scratched.mp4", rotation=90, options={"movflags": "faststart"})
    data = bytearray(path.read_bytes())
    at = data.index(b"mdat") + 4 + 760
    data[at : at + 60] = bytes(60)
    path.write_bytes(data)
    assert sample(path, 4).frames.shape[1:3] == (160, 128)
    assert upright_size(path) == (128, 160)


def test_a_start_after_the_end_is_refused_and_named(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="start: 4 s is not in the video"):
        sample(media_files.video(tmp_path / "clip.mp4"), 1, start=4)


def test_a_rate_that_cannot_be_kept_is_noted_or_refused(tmp_path: Path) -> None:
    path = media_files.video(tmp_path / "clip.mp4")
    note = "4.0 s of video at 10 frames a second are more than the 8 frames that the model can take"
    thinned = sample(path, 10, max_frames=8)
    assert len(thinned.indices) == 8 and thinned.notes[0].startswith(note) and len(thinned.notes) == 1
    with pytest.raises(Failure, match=note) as refused:
        sample(path, 10, max_frames=8, may_thin=False)
    assert refused.value.error.code == "InvalidInput" and "longVideo" in refused.value.error.remedy
    assert sample(path, 10, max_frames=40, may_thin=False).notes == ()
    assert sample(path, 60, max_frames=40, may_thin=False).notes == (), "it has no more frames than these"
    assert sample(path, 10, max_frames=8, end=0.8, may_thin=False).notes == ()


def test_a_short_video_gives_at_least_min_frames(tmp_path: Path) -> None:
    assert len(sample(media_files.video(tmp_path / "clip.mp4", frames=10), 1, min_frames=4).indices) == 4


def test_a_video_of_one_frame_is_sampled(tmp_path: Path) -> None:
    assert sample(media_files.video(tmp_path / "one.mp4", frames=1), 4, min_frames=4).frames.shape[0] == 1


def test_metadata_has_the_form_of_transformers(tmp_path: Path) -> None:
    clip = sample(media_files.video(tmp_path / "clip.mp4"), 1)
    assert clip.metadata["fps"] == pytest.approx(10)
    assert clip.metadata["duration"] == pytest.approx(4)
    assert clip.metadata["total_num_frames"] == 40
    assert clip.metadata["frames_indices"] == clip.indices


def test_frames_are_scaled_to_the_budget(tmp_path: Path) -> None:
    clip = sample(
        media_files.video(tmp_path / "clip.mp4", width=640, height=320), 4, PixelBudget(16 * 128 * 64, 10**6, 32)
    )
    assert clip.frames.shape == (16, 64, 128, 3)


@pytest.mark.parametrize(("rotation", "corner"), [(90, (-1, 0)), (-90, (0, -1)), (180, (-1, -1))])
def test_a_rotated_video_is_sampled_upright(tmp_path: Path, rotation: int, corner: tuple[int, int]) -> None:
    """The stored frame is bright in its upper left corner, which the rotation (counterclockwise) moves."""

    def paint(_: int) -> np.ndarray:
        frame = np.zeros((128, 160, 3), np.uint8)
        frame[:64, :80] = 255
        return frame

    frame = sample(media_files.video(tmp_path / "phone.mp4", rotation=rotation, paint=paint), 1).frames[0]
    assert frame.shape == ((128, 160, 3) if rotation == 180 else (160, 128, 3))
    bright = {corner: frame[corner].mean() for corner in ((0, 0), (0, -1), (-1, 0), (-1, -1))}
    assert max(bright, key=lambda at: bright[at]) == corner


def test_a_file_of_noise_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="cannot be decoded at"):
        sample(media_files.mp4_with_damage(tmp_path), 4)


def test_damage_between_the_sampled_frames_is_noted(tmp_path: Path) -> None:
    """With few frames the file can be sampled, with more it is refused. The damage must be reported in both cases."""
    path = media_files.mp4_with_a_hole(tmp_path, 1.4, 2.5)
    few = sample(path, 1)
    assert [round(index / few.fps, 1) for index in few.indices] == [0.0, 1.3, 2.6, 3.9]
    assert few.notes == ("The video is damaged: frames after 1.3 s cannot be decoded, and were not seen.",)
    with pytest.raises(Failure, match=r"damaged: it cannot be decoded at 1\.4 s"):
        sample(path, 10)
    assert sample(media_files.video(tmp_path / "whole.mp4", codec_options={"g": "1"}), 1).notes == ()


def test_a_damaged_sampled_frame_is_noted(tmp_path: Path) -> None:
    assert any("damaged" in note for note in sample(media_files.mp4_with_a_hole(tmp_path, 1.0, 1.6), 4).notes)


def test_decoding_ends_when_check_raises(tmp_path: Path) -> None:
    path = media_files.video(tmp_path / "clip.mp4")
    info = probe(path)
    assert isinstance(info, VideoInfo)
    calls = []

    def check() -> None:
        calls.append(1)
        if len(calls) == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        sample_frames(path, info, 4, LARGE, max_frames=16, check=check)
    assert len(calls) == 3


@pytest.mark.parametrize("make", media_files.ODD.values(), ids=media_files.ODD)
def test_unusual_videos_are_sampled_correctly(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    clip = sample(make(tmp_path), 4)
    assert clip.frames.dtype == np.uint8 and clip.frames.shape[3] == 3
    assert clip.frames.shape[1] % 32 == clip.frames.shape[2] % 32 == 0
    for place, index in ((0, 0), (-1, 39)):
        assert clip.frames[place].mean() == pytest.approx(media_files.grey_at(index, 40), abs=6)


def test_ten_hours_are_sampled_down_or_refused(tmp_path: Path) -> None:
    path = media_files.ten_hours(tmp_path)
    clip = sample(path, 4)
    assert len(clip.frames) == 768 and clip.duration == 36_000
    assert clip.notes[0].startswith("36000.0 s of video at 4 frames a second are more than the 768 frames")
    with pytest.raises(Failure, match=r"0\.0213 a second fit"):
        sample(path, 4, may_thin=False)
    part = sample(path, 1, start=35_900, may_thin=False)
    assert part.notes == () and [round(index / clip.fps) for index in part.indices] == list(range(35_900, 36_000, 10))


def test_headers_that_promise_ten_hours_are_not_believed(tmp_path: Path) -> None:
    """The movie and the track header state a false duration. Only the packets count."""
    path = media_files.video(tmp_path / "liar.mp4")
    data = bytearray(path.read_bytes())
    at = data.index(b"mvhd") + 4
    scale, _ = struct.unpack_from(">II", data, at + 12)
    struct.pack_into(">I", data, at + 16, scale * 36_000)
    at = data.index(b"tkhd") + 4
    struct.pack_into(">I", data, at + 20, scale * 36_000)
    path.write_bytes(data)
    clip = sample(path, 4)
    assert len(clip.frames) == 16 and clip.duration == pytest.approx(4)


def test_a_video_that_cannot_be_read_even_without_shortcuts_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index that is wrong at `start` leads to data that FFmpeg cannot read, whichever shortcuts are taken."""

    def unreadable(*_: Any) -> Iterator[av.VideoFrame]:
        raise av.error.InvalidDataError(0, "Invalid data found")
        yield

    monkeypatch.setattr(frame_sampling, "decode", unreadable)
    with pytest.raises(Failure, match="damaged: it cannot be decoded") as raised:
        sample(media_files.video(tmp_path / "clip.mp4"), 1)
    assert raised.value.error.code == "InvalidInput"
