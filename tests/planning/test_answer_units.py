"""Converting thousandths to pixels, and `mm:ss.ff` to seconds and back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmos_batch.planning.answer_units import has_places, pixels_of, seconds_of, time_of, with_units

SIDES = st.integers(1, 16_384)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["bbox_2d", "start", "end"]), inner),
)


@given(st.floats(0, 5e5))
def test_seconds_survive_conversion_to_a_hundredth(seconds: float) -> None:
    assert seconds_of(time_of(seconds)) == pytest.approx(seconds, abs=0.00501)


@given(st.integers(0, 9999), st.integers(0, 59), st.integers(0, 99))
def test_times_survive_conversion(minutes: int, seconds: int, hundredths: int) -> None:
    text = f"{minutes:02}:{seconds:02}.{hundredths:02}"
    assert seconds_of(text) == pytest.approx(minutes * 60 + seconds + hundredths / 100)
    assert time_of(seconds_of(text) or 0) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("00:13.30", 13.3), ("1:02", 62), (" 01:00:01.5 ", 3601.5), ("00:75.00", None), ("13.3", None), ("", None),
     ("٠٠:١٣.٣٠", None), ("-1:00", None), ("00:13.30 to 00:14", None), ("9" * 5000 + ":00", None)],
)  # fmt: skip
def test_only_minutes_and_seconds_are_read_as_a_time(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds


@given(st.text())
def test_any_text_is_read_as_a_time_or_as_none(text: str) -> None:
    assert seconds_of(text) is None or seconds_of(text) >= 0  # type: ignore[operator]


@given(st.lists(st.floats(-1e6, 1e6), min_size=4, max_size=4), SIDES, SIDES)
def test_pixels_lie_in_the_picture(box: list[float], width: int, height: int) -> None:
    x1, y1, x2, y2 = pixels_of(box, (width, height))
    assert 0 <= x1 <= width and 0 <= x2 <= width and 0 <= y1 <= height and 0 <= y2 <= height


@given(st.floats(0, 1000), st.floats(0, 1000), SIDES, SIDES)
def test_each_axis_has_its_own_thousandths(x: float, y: float, width: int, height: int) -> None:
    pixels = pixels_of([x, y], (width, height))
    assert pixels[0] == pytest.approx(x / 1000 * width, abs=0.501)
    assert pixels[1] == pytest.approx(y / 1000 * height, abs=0.501)


@given(JSON)
def test_the_models_own_values_do_not_change(data: Any) -> None:
    assert _without_units(with_units(data, (640, 480))) == _without_units(data)


def _without_units(data: Any) -> Any:
    if isinstance(data, list):
        return [_without_units(one) for one in data]
    if isinstance(data, dict):
        added = {"bbox_pixels", "point_pixels", "start_time", "start_seconds", "end_time", "end_seconds"}
        return {name: _without_units(value) for name, value in data.items() if name not in added}
    return data


def test_converted_values_are_added_beside_the_models() -> None:
    places = [{"bbox_2d": [0, 500, 1000, 1000], "label": "load"}, {"point_2d": [500, 250]}]
    assert with_units(places, (1920, 1080)) == [
        {"bbox_2d": [0, 500, 1000, 1000], "label": "load", "bbox_pixels": [0, 540, 1920, 1080]},
        {"point_2d": [500, 250], "point_pixels": [960, 270]},
    ]
    assert with_units({"events": [{"start": 4.2, "end": "01:02.50"}]}, None) == {
        "events": [{"start": 4.2, "end": "01:02.50", "start_time": "00:04.20", "end_seconds": 62.5}]
    }
    assert has_places(places) and not has_places([{"start": 1}])


@pytest.mark.parametrize("odd", [[1, 2, 3], [True, 1, 2, 3], "0 0 1 1", None, [1, 2, 3, "4"]])
def test_values_that_are_no_box_are_left_alone(odd: Any) -> None:
    assert with_units({"bbox_2d": odd, "start": True, "end": "later"}, (10, 10)) == {
        "bbox_2d": odd, "start": True, "end": "later",
    }  # fmt: skip


@pytest.mark.parametrize("beyond", [1e308, 10**400, -1])
def test_values_that_are_no_time_are_left_alone(beyond: float) -> None:
    assert with_units({"start": beyond}, None) == {"start": beyond}
