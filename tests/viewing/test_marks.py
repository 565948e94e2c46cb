"""Boxes, points and events are read out of answers, and whatever has no such form is passed over."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmos_batch.viewing.marks import Box, Event, Marks, Point, TimeSpan, marks_of_answer


def test_a_box_is_in_shares_of_the_picture_with_its_corners_in_order() -> None:
    marks = marks_of_answer([{"bbox_2d": [300, 900, 100, 1200], "label": "cup"}], "")
    assert marks.boxes == (Box(0.1, 0.9, 0.3, 1.0, "cup"),)


def test_a_point_and_an_event_in_minutes_are_read() -> None:
    answer = [
        {"point_2d": [500, 250], "label": "handle"},
        {"start": "01:02.50", "end": "01:04.00", "caption": "The drawer opens."},
    ]
    marks = marks_of_answer(answer, "")
    assert marks.points == (Point(0.5, 0.25, "handle"),)
    assert marks.events == (Event(TimeSpan(62.5, 64.0), "The drawer opens."),)


def test_a_box_with_a_time_holds_at_that_time_alone() -> None:
    marks = marks_of_answer([{"bbox_2d": [0, 0, 10, 10], "label": "a", "time": 2.0}], "")
    assert marks.at(2.2, tolerance=0.25).boxes
    assert not marks.at(2.5, tolerance=0.25).boxes


def test_a_box_without_a_time_holds_always() -> None:
    assert marks_of_answer([{"bbox_2d": [0, 0, 10, 10], "label": "a"}], "").at(123.0).boxes


def test_marks_in_the_text_are_read_where_there_is_no_data() -> None:
    item = {"bbox_2d": [0, 0, 500, 500], "label": "cup"}
    fenced = f"Here it is:\n```json\n{json.dumps([item])}\n```"
    assert marks_of_answer(None, fenced) == marks_of_answer(None, json.dumps([item])) == marks_of_answer([item], "")


def test_data_counts_where_the_text_has_marks_too() -> None:
    text = json.dumps([{"bbox_2d": [0, 0, 500, 500], "label": "text"}])
    assert marks_of_answer([{"bbox_2d": [0, 0, 500, 500], "label": "data"}], text).boxes[0].label == "data"


@pytest.mark.parametrize(
    "item",
    [
        {"bbox_2d": [1, 2, 3]},
        {"bbox_2d": "1, 2, 3, 4"},
        {"bbox_2d": [1, 2, 3, None]},
        {"bbox_2d": [1, 2, 3, True]},
        {"point_2d": [float("nan"), 2]},
        {"start": "soon", "end": "later", "caption": "no time"},
        {"start": -1, "end": -2},
        "only words",
        7,
    ],
)
def test_objects_without_the_form_of_a_mark_are_passed_over(item: object) -> None:
    assert not marks_of_answer([item], "")


def test_marks_nested_too_deep_are_left_out() -> None:
    value: object = {"bbox_2d": [0, 0, 1, 1]}
    for _ in range(5000):
        value = [value]
    assert marks_of_answer(value, "") == Marks()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["bbox_2d", "point_2d", "start", "end", "x"]), inner)
    ),
)


@given(json_values)
def test_no_answer_breaks_the_reader_and_all_marks_lie_in_the_picture(value: object) -> None:
    marks = marks_of_answer(value, "")
    for box in marks.boxes:
        assert 0 <= box.left <= box.right <= 1
        assert 0 <= box.top <= box.bottom <= 1
    for event in marks.events:
        assert 0 <= event.span.start < event.span.end
