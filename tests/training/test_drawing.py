"""Scenes are drawn with the right pixels."""

import numpy as np
import pytest

from cosmos_batch.demo.drawing import draw_frames
from cosmos_batch.demo.scenes import COLOURS, KINDS, Scene, ShapeKind, Thing


def scene_of(*things: Thing, background: str = "plain") -> Scene:
    tones = ((235, 235, 235), (90, 90, 95)) if background == "gradient" else ((235, 235, 235),)
    return Scene(4 / 3, 1.0, 2.0, things, background, tones, 10.0 if background == "noisy" else 0.0, False, 5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [(320, 240), (256, 256)])
def test_a_shape_fills_its_box_and_nothing_more(kind: ShapeKind, size: tuple[int, int]) -> None:
    """A stretched picture is drawn as exactly as any other."""
    width, height = size
    thing = Thing(kind, "red", 0.2, 0.6, 0.45)

    [frame] = draw_frames(scene_of(thing), np.zeros(1), width, height)

    rows, columns = np.nonzero(frame[..., 1] < 200)
    drawn = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
    expected = thing.boxes(np.zeros(1))[0] * [width / (4 / 3), height, width / (4 / 3), height]
    assert drawn == pytest.approx(expected, abs=2)


@pytest.mark.parametrize("kind", KINDS)
def test_the_middle_has_the_shapes_colour(kind: ShapeKind) -> None:
    [frame] = draw_frames(scene_of(Thing(kind, "blue", 0.2, 0.6, 0.5)), np.zeros(1), 400, 300)

    assert frame[150, 180].tolist() == list(COLOURS["blue"])


def test_backgrounds_differ() -> None:
    plain, gradient, noisy = (
        draw_frames(scene_of(background=one), np.zeros(1), 64, 48)[0] for one in ("plain", "gradient", "noisy")
    )

    assert plain.std() == 0
    assert gradient[:, 0].mean() - gradient[:, -1].mean() > 100
    assert 8 < noisy.std() < 12
