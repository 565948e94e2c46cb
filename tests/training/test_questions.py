"""Answers about scenes that were put together by hand."""

import json

import numpy as np
import pytest

from cosmos_batch.demo.random_scenes import draw_scene
from cosmos_batch.demo.scenes import Movement, Scene, Thing
from training.answers import boxes_answer, caption, localization, next_sentence, verdict
from training.evaluate import is_right
from training.questions import CLIP_ASKERS, ask


def scene(*things: Thing, duration: float = 4.0) -> Scene:
    return Scene(4 / 3, 1.0, duration, things, "plain", ((235, 235, 235),), 0.0, False, 1)


RIGHT = Movement("right", 0.5, 2.0, 0.4)
CIRCLE = Thing("circle", "red", 0.1, 0.3, 0.5, RIGHT)
STAR = Thing("star", "orange", 0.1, 1.0, 0.2, Movement("fall", 2.5, 3.5, 0.6))
SQUARE = Thing("square", "blue", 0.1, 0.9, 0.8)


def test_a_caption_has_every_shape_colour_and_motion_in_order() -> None:
    assert caption(scene(STAR, SQUARE, CIRCLE)) == (
        "On a plain background, a red circle moves to the right, then an orange star falls to the ground, "
        "while a blue square stays still."
    )


def test_a_picture_is_described_from_the_left_to_the_right() -> None:
    assert caption(scene(SQUARE, CIRCLE, duration=0.0)) == (
        "The image shows a red circle and a blue square on a plain background."
    )


def test_events_have_their_times() -> None:
    assert json.loads(localization(scene(STAR, CIRCLE), False, 0.0)) == [
        {"start": 0.5, "end": 2.0, "caption": "The red circle moves to the right."},
        {"start": 2.5, "end": 3.5, "caption": "The orange star falls to the ground."},
    ]
    assert json.loads(localization(scene(CIRCLE), True, 1.0))[0]["start"] == "00:01.50"


def test_a_box_follows_the_shape() -> None:
    [box] = json.loads(boxes_answer(scene(CIRCLE), [CIRCLE], 0.0))
    [later] = json.loads(boxes_answer(scene(CIRCLE), [CIRCLE], 2.0))

    assert box == {"bbox_2d": [150, 400, 300, 600], "label": "red circle"}
    assert later["bbox_2d"] == [450, 400, 600, 600]


@pytest.mark.parametrize(
    ("event", "answer"),
    [
        (Movement("fall", 1.0, 2.0, 0.3), "Yes, this is physically plausible."),
        (Movement("rise", 1.0, 2.0, 0.3), "No, the red circle falls upwards."),
        (Movement("pass", 1.0, 2.0, 0.9, 1, 1), "No, the red circle passes through the blue square."),
    ],
)
def test_the_answer_names_the_movement_that_breaks_physics(event: Movement, answer: str) -> None:
    assert verdict(scene(Thing("circle", "red", 0.1, 0.3, 0.5, event), SQUARE)) == answer


@pytest.mark.parametrize(
    ("event", "answer"),
    [
        (RIGHT, "Nothing moves any more."),
        (Movement("right", 3.0, 4.8, 0.5), "The red circle keeps moving to the right."),
        (Movement("fall", 3.2, 4.3, 0.4), "The red circle lands on the ground."),
        (Movement("approach", 3.0, 4.5, 0.4, 1, 1), "The red circle hits the blue square."),
    ],
)
def test_the_next_event_follows_from_the_present_movement(event: Movement, answer: str) -> None:
    assert next_sentence(scene(Thing("circle", "red", 0.1, 0.3, 0.5, event), SQUARE)) == answer


@pytest.mark.parametrize("asker", CLIP_ASKERS)
def test_every_kind_of_question_can_be_asked_of_every_scene(asker: object) -> None:
    random = np.random.default_rng(2)

    for _ in range(40):
        question = ask(random, draw_scene(random, 4 / 3, 1.0, 3.0), asker)
        assert "{" not in question.text.split("```")[0].split("[{")[0], "every place is filled"
        assert is_right(question, question.answer)
        assert not is_right(question, "I do not know.")
