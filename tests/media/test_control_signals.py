"""Edges and blur of pictures with known edges."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmos_batch.catalogue.generation import Strength
from cosmos_batch.media import VideoInfo, first_frame_times, frames_at_size, probe, write_video
from cosmos_batch.media.control_signals import EDGE_THRESHOLDS, blurred, edges
from tests.support import media_files
from tests.support.mp4 import pictures

STRENGTHS: tuple[Strength, ...] = tuple(EDGE_THRESHOLDS)


def square(level: int = 255, background: int = 0) -> np.ndarray:
    """Return a picture of 100 x 80 with a square from 30 to 69 across and from 20 to 59 down."""
    picture = np.full((80, 100, 3), background, np.uint8)
    picture[20:60, 30:70] = level
    return picture


def noise(height: int = 192, width: int = 320) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)


def test_edges_of_a_square_are_its_border() -> None:
    result = edges(square())
    assert (result.shape, result.dtype) == ((80, 100, 3), np.uint8)
    assert set(np.unique(result)) == {0, 255}
    assert (result[:, :, 0] == result[:, :, 1]).all() and (result[:, :, 0] == result[:, :, 2]).all()
    rows, columns = np.nonzero(result[:, :, 0])
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == pytest.approx((20, 59, 30, 69), abs=1)
    assert not result[24:56, 34:66].any(), "nothing inside"
    assert len(rows) == pytest.approx(4 * 40, abs=12), "one pixel thick"


@pytest.mark.parametrize(
    ("step", "seen"),
    [
        (10, []),
        (20, ["very_low"]),  # Sobel makes 4 x 20 = 80 of it: above 50, below 100
        (30, ["very_low", "low"]),
        (60, ["very_low", "low", "medium"]),
        (80, ["very_low", "low", "medium", "high"]),
        (120, list(STRENGTHS)),
    ],
)
def test_a_stronger_preset_keeps_only_stronger_edges(step: int, seen: list[str]) -> None:
    picture = np.full((80, 100, 3), 100, np.uint8)
    picture[:, 50:] += step
    assert [strength for strength in STRENGTHS if edges(picture, strength).any()] == seen


def test_an_edge_in_one_channel_is_found() -> None:
    """Red and green have the same lightness, so a gray picture would have no edge."""
    picture = np.zeros((80, 100, 3), np.uint8)
    picture[:, :50], picture[:, 50:] = (150, 0, 0), (0, 76, 0)
    assert edges(picture)[:, 48:52].any()


@pytest.mark.parametrize("strength", STRENGTHS)
def test_a_picture_of_one_color_has_no_edges_and_stays_unchanged(strength: Strength) -> None:
    plain = np.full((80, 100, 3), (200, 100, 50), np.uint8)
    assert not edges(plain, strength).any()
    assert (blurred(plain, strength) == plain).all()


def test_blur_removes_details_and_keeps_large_shapes() -> None:
    checked = square()
    checked[::2, ::2] = 128
    soft = blurred(checked).astype(int)
    assert soft.shape == checked.shape
    assert np.abs(np.diff(soft, axis=1)).max() < 60 < np.abs(np.diff(checked.astype(int), axis=1)).max()
    assert soft[40, 50].mean() > 170 and soft[5, 5].mean() < 80, "the square is still there"
    assert not edges(blurred(noise()), "medium").any()


def test_blur_removes_faint_noise_and_keeps_strong_edges() -> None:
    """The bilateral filter does this; shrinking alone leaves twice as much noise."""
    faint = np.random.default_rng(0).integers(118, 138, (192, 320, 3), np.uint8)
    assert blurred(faint, "very_low").std() < 1
    step = np.zeros((192, 320, 3), np.uint8)
    step[:, 160:] = 255
    assert (blurred(step, "very_low")[:, 168:] > 230).all() and (blurred(step, "very_low")[:, :152] < 25).all()


def test_a_stronger_preset_blurs_more() -> None:
    left = [blurred(noise(), strength).astype(float).std() for strength in ("very_low", "medium", "very_high")]
    assert left == sorted(left, reverse=True)
    assert left[-1] < noise().std() / 4


@pytest.mark.parametrize("signal", [edges, blurred])
def test_the_same_frame_gives_the_same_signal(signal: object) -> None:
    assert callable(signal)
    assert (signal(noise()) == signal(noise())).all()


@settings(max_examples=30, deadline=None)
@given(width=st.integers(1, 64), height=st.integers(1, 64), strength=st.sampled_from(STRENGTHS))
def test_frames_of_any_size_are_accepted(width: int, height: int, strength: Strength) -> None:
    frame = noise(height, width)
    assert edges(frame, strength).shape == blurred(frame, strength).shape == frame.shape


def test_a_numpy_view_of_a_frame_is_accepted() -> None:
    """Views come from rotating and cropping without a copy."""
    turned = np.rot90(square())
    assert (edges(turned) == edges(turned.copy())).all()
    assert (blurred(turned) == blurred(turned.copy())).all()


def test_a_control_video_is_made_from_a_video(tmp_path: Path) -> None:
    """The edges of a moving square are in the file that an engine reads."""

    def paint(index: int) -> np.ndarray:
        picture = np.zeros((128, 160, 3), np.uint8)
        picture[40:80, 20 + 4 * index : 60 + 4 * index] = 255
        return picture

    source = media_files.video(tmp_path / "source.mp4", frames=13, paint=paint)
    result = probe(source)
    assert isinstance(result, VideoInfo)
    fitted = frames_at_size(source, result.timeline, first_frame_times(result.timeline, 13), (160, 128))
    write_video(tmp_path / "edge.mp4", map(edges, fitted), Fraction(10), lossless=True)
    seen = pictures(tmp_path / "edge.mp4")[:, :, :, 0]
    assert ((seen < 5) | (seen > 250)).all(), "still black and white"
    for index, frame in enumerate(seen):
        columns = np.nonzero(frame[60] > 250)[0]
        assert (columns.min(), columns.max()) == pytest.approx((20 + 4 * index, 59 + 4 * index), abs=2)
