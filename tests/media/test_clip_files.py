"""Files of raw frames, which vLLM's server reads, and the MP4 of a clip for other servers."""

import io
import struct
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest

from cosmos_batch.media import Clip
from cosmos_batch.media.clip_files import as_mp4, read_clip, write_clip

CLIP = Clip(
    frames=np.random.default_rng(0).integers(0, 256, (4, 32, 64, 3), np.uint8),
    indices=[0, 6, 12, 18],
    fps=24.0,
    duration=1.0,
    source_frames=24,
)


def test_frames_and_metadata_are_read_as_they_were_written(tmp_path: Path) -> None:
    write_clip(CLIP, tmp_path / "a.clip")
    frames, metadata = read_clip((tmp_path / "a.clip").read_bytes())
    np.testing.assert_array_equal(frames, CLIP.frames)
    assert metadata == CLIP.metadata


def test_frames_that_are_a_part_of_others_are_written_alike(tmp_path: Path) -> None:
    part = replace(CLIP, frames=CLIP.frames[:, ::2])
    write_clip(part, tmp_path / "a.clip")
    np.testing.assert_array_equal(read_clip((tmp_path / "a.clip").read_bytes())[0], part.frames)


def test_the_digest_is_that_of_frames_and_metadata(tmp_path: Path) -> None:
    others = [
        replace(CLIP, frames=CLIP.frames ^ 1),
        replace(CLIP, frames=CLIP.frames.reshape(4, 64, 32, 3)),
        replace(CLIP, indices=[0, 6, 12, 19]),
    ]
    digests = [write_clip(clip, tmp_path / "a.clip") for clip in (CLIP, *others)]
    assert len(set(digests)) == 4 and digests[0] == write_clip(CLIP, tmp_path / "b.clip")


@pytest.mark.parametrize("cut", [4, 40, -1], ids=["length", "header", "frames"])
def test_a_file_that_was_cut_is_no_clip(tmp_path: Path, cut: int) -> None:
    write_clip(CLIP, tmp_path / "a.clip")
    with pytest.raises((ValueError, struct.error)):
        read_clip((tmp_path / "a.clip").read_bytes()[:cut])


@pytest.mark.parametrize(("count", "seconds"), [(4, 1), (4, 4_000), (2, 5_000), (2, 86_400)])
def test_an_mp4_has_the_times_of_its_frames_however_far_they_are_apart(count: int, seconds: int) -> None:
    indices = [round(index * seconds * 24 / (count - 1)) for index in range(count)]
    clip = replace(CLIP, frames=CLIP.frames[:count], indices=indices)
    with av.open(io.BytesIO(as_mp4(clip))) as container:
        times = [frame.time for frame in container.decode(video=0)]
    np.testing.assert_allclose(times, [index / 24 for index in indices], rtol=1e-3)
