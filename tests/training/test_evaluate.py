"""True answers count as true, and the figures of the evaluation follow from them."""

import json
from pathlib import Path

import pytest

from training.evaluate import ScoredAnswer, draw_item, is_right, size_name, summarize
from training.questions import NOT_THIS_WORLD, LabelledQuestion
from training.sizes import HELD_OUT_RATES, HELD_OUT_SIZES
from training.wordings import HELD_OUT, TRAINED


def boxes(*corners: list[int], label: str = "red circle") -> str:
    return json.dumps([{"bbox_2d": one, "label": label} for one in corners])


@pytest.mark.parametrize(
    ("kind", "expected", "answer", "right"),
    [
        ("colour", "The circle is red.", "The circle is red.", True),
        ("colour", "The circle is red.", "The circle is blue.", False),
        ("direction", "The star moves up.", "The star moves down.", False),
        ("when", "From 1.0 to 2.5 seconds.", "From 1.5 to 2.0 seconds.", True),
        ("when", "From 1.0 to 2.5 seconds.", "From 1.6 to 2.5 seconds.", False),
        ("when", '[{"start": "00:01.00"}]', '[{"start": "00:01.50"}]', True),
        ("when", '[{"start": "00:01.00"}]', '[{"start": "00:01.60"}]', False),
        ("when", "From 1.0 to 2.5 seconds.", "The star stays still.", False),
        ("where", boxes([0, 0, 100, 100]), boxes([0, 0, 100, 200]), True),
        ("where", boxes([0, 0, 100, 100]), boxes([0, 0, 100, 201]), False),
        ("where", boxes([0, 0, 100, 100]), boxes([0, 0, 100, 100], label="blue circle"), False),
        ("where", boxes([0, 0, 100, 100]), boxes(), False),
        ("where", boxes([0, 0, 100, 100]), "no JSON", False),
        ("where", '[{"point_2d": [100, 100], "label": "x"}]', '[{"point_2d": [150, 50], "label": "x"}]', True),
        ("where", '[{"point_2d": [100, 100], "label": "x"}]', '[{"point_2d": [151, 100], "label": "x"}]', False),
    ],
)
def test_an_answer_is_right_or_wrong(kind: str, expected: str, answer: str, right: bool) -> None:
    assert is_right(LabelledQuestion(kind, "?", expected), answer) is right


@pytest.mark.slow
def test_the_items_of_the_evaluation_are_the_same_each_time_and_some_are_held_out(tmp_path: Path) -> None:
    items = [draw_item(number, tmp_path) for number in range(30)]
    first = items[0].path.read_bytes()

    assert (draw_item(0, tmp_path).question, draw_item(0, tmp_path).path.read_bytes()) == (items[0].question, first)
    new = [one for one in items if (one.width, one.height) in HELD_OUT_SIZES]
    assert 8 <= len(new) <= 22
    assert all(one.rate is None or one.rate in HELD_OUT_RATES for one in new)
    assert all(one.rate is None or one.rate not in HELD_OUT_RATES for one in items if one not in new)
    assert 1 <= sum(one.new_wording for one in items) <= 12
    assert HELD_OUT.caption != TRAINED.caption


def result(kind: str, answer: str, size: tuple[int, int] = (320, 240), new_wording: bool = False) -> ScoredAnswer:
    return ScoredAnswer(0, *size, 12, new_wording, kind, "?", "yes", answer, answer == "yes", 1.0)


def test_new_wordings_are_counted_apart_and_refusals_within_the_world_are_wrong() -> None:
    results = [
        result("colour", "yes"),
        result("colour", "no"),
        result("colour", "no", new_wording=True),
        result("shape", NOT_THIS_WORLD, HELD_OUT_SIZES[0]),
        result("outside", NOT_THIS_WORLD),
    ]

    summary = summarize(results)

    assert summary["accuracy"]["colour"] == {"asked": 2, "right": 0.5}
    assert summary["new wordings"] == {"colour": {"asked": 1, "right": 0.0}}
    assert summary["sizes"]["180x320"] == {"asked": 1, "right": 0.0}
    assert summary["sizes"]["trained"] == {"asked": 3, "right": 0.3333}
    assert summary["clips"] == {"trained wordings": 4, "new wordings": 1}
    assert summary["in its world"] == {"trained wordings": 3, "new wordings": 1}
    assert summary["refused wrongly"] == {"trained wordings": 1, "new wordings": 0}
    assert size_name(results[0]) == "trained"
