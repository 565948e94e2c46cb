"""All parts agree on how a video's frames are turned for display."""

from pathlib import Path

import av
import pytest

from cosmos_batch.catalogue.pixel_budget import PixelBudget
from cosmos_batch.console.pictures import display_size
from cosmos_batch.media import VideoInfo, displayed_size, probe, sample_frames, upright_size
from tests.support import media_files

BUDGET = PixelBudget(10**9, 10**9, 32)
MATRIX = slice(40, 76)  # of the box `tkhd`, after its name


def sizes(path: Path) -> set[tuple[int, int]]:
    """Return the width and height of a video's frames by all parts that turn them."""
    info = probe(path)
    assert isinstance(info, VideoInfo)
    _, height, width, _ = sample_frames(path, info, 1.0, BUDGET, max_frames=4).frames.shape
    with av.open(str(path)) as container:
        shown = display_size(next(container.decode(video=0)), None, 1000)
    return {(width, height), shown, upright_size(path), displayed_size(path)}


@pytest.mark.parametrize(("degrees", "turned"), [(0, False), (90, True), (180, False), (-90, True), (45, False)])
def test_only_quarter_turns_turn_a_frame(tmp_path: Path, degrees: int, turned: bool) -> None:
    path = media_files.video(tmp_path / "a.mp4", width=160, height=128, rotation=degrees)
    assert sizes(path) == {(128, 160) if turned else (160, 128)}


def test_a_display_matrix_of_zeros_turns_nothing(tmp_path: Path) -> None:
    path = media_files.video(tmp_path / "a.mp4", width=160, height=128, rotation=90)
    content = bytearray(path.read_bytes())
    header = content.index(b"tkhd") + 4
    content[header + MATRIX.start : header + MATRIX.stop] = bytes(36)
    path.write_bytes(content)
    with av.open(str(path)) as container:
        assert next(container.decode(video=0)).rotation % 90, "the matrix is read, and is no quarter turn"
    assert sizes(path) == {(160, 128)}
