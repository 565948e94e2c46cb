"""Scenes of the demo model's world."""

import numpy as np
import pytest

from cosmos_batch.demo.random_scenes import draw_scene
from cosmos_batch.demo.scenes import Movement, Scene, Thing


def some_scenes(duration: float, count: int = 60) -> list[Scene]:
    random = np.random.default_rng(11)
    return [draw_scene(random, 4 / 3, 1.0, duration) for _ in range(count)]


def test_the_same_seed_draws_the_same_scene() -> None:
    first, second = (draw_scene(np.random.default_rng(3), 4 / 3, 1.0, 4.0) for _ in range(2))

    assert first == second


@pytest.mark.parametrize("duration", [0.0, 2.0, 6.0])
def test_shapes_stay_in_the_picture(duration: float) -> None:
    times = np.linspace(0, duration, 50)

    for scene in some_scenes(duration):
        for thing in scene.things:
            boxes = thing.boxes(times)
            assert boxes[:, :2].min() > -0.01
            assert boxes[:, 2].max() < scene.width + 0.01
            assert boxes[:, 3].max() < scene.height + 0.01


def test_only_a_shape_that_passes_through_another_overlaps_it() -> None:
    times = np.linspace(0, 4.0, 80)
    overlapping = []
    for scene in some_scenes(4.0, 200):
        for one, first in enumerate(scene.things):
            for other in range(one + 1, len(scene.things)):
                a, b = first.boxes(times), scene.things[other].boxes(times)
                shared = np.minimum(a[:, 2:], b[:, 2:]) - np.maximum(a[:, :2], b[:, :2])
                if (shared.min(axis=1) > 0.02).any():
                    overlapping.append((first.event, other))

    assert overlapping, "some pass through each other"
    assert all(event is not None and event.move == "pass" and event.other == other for event, other in overlapping)


def test_movements_come_in_the_order_in_which_they_begin() -> None:
    for scene in some_scenes(5.0):
        starts = [event.start for _, event in scene.events]
        assert starts == sorted(starts)


def test_a_fall_is_accelerated_and_ends_on_the_ground() -> None:
    ball = Thing("circle", "red", 0.1, 0.5, 0.3, Movement("fall", 1.0, 2.0, 0.6))

    heights = ball.centres(np.array([0.0, 1.0, 1.5, 2.0, 3.0]))[:, 1]

    assert heights == pytest.approx([0.3, 0.3, 0.45, 0.9, 0.9])


def test_a_bounce_touches_the_ground_and_comes_back() -> None:
    ball = Thing("circle", "red", 0.1, 0.5, 0.4, Movement("bounce", 0.0, 12.0, 0.5))

    heights = ball.centres(np.array([0.0, 0.6, 1.2, 1.8]))[:, 1]

    assert heights == pytest.approx([0.4, 0.9, 0.4, 0.9])
