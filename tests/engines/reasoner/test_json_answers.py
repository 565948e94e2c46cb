"""Answers with a JSON Schema: the JSON is found in the text, checked, and asked for once more."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.json_schema import DEPTH_LIMIT
from cosmos_batch.contract.result import Answer, Usage
from cosmos_batch.contract.tasks import TASKS
from cosmos_batch.engines.reasoner import json_answers, schema_check
from cosmos_batch.engines.reasoner.json_answers import UNCHECKED, read_data, run_with_schema
from tests.engines.conftest import make_job, place
from tests.support import media_files

ANY: dict[str, Any] = {}
ROBOTS = {"type": "object", "properties": {"robots": {"type": "integer"}}, "required": ["robots"]}
FINITE = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(codec="utf-8"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | FINITE | TEXT,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5),
    max_leaves=20,
)
CONTAINERS = st.lists(JSON, max_size=5) | st.dictionaries(TEXT, JSON, max_size=5)
PROSE = st.text(st.characters(codec="utf-8", exclude_characters="[{}]`"))


@given(JSON, st.booleans(), st.sampled_from([None, 2]))
def test_bare_json_is_found(value: Any, ascii_only: bool, indent: int | None) -> None:
    assert read_data(json.dumps(value, ensure_ascii=ascii_only, indent=indent), ANY) == (value, None)


@given(CONTAINERS, PROSE, PROSE)
def test_json_among_words_is_found(value: Any, before: str, after: str) -> None:
    assert read_data(f"{before}{json.dumps(value)}{after}", {"type": ["array", "object"]}) == (value, None)


@given(JSON.filter(lambda value: "```" not in json.dumps(value)), PROSE, PROSE)
def test_fenced_json_is_found(value: Any, before: str, after: str) -> None:
    for language in ("json", "", "JSON "):
        text = f"{before}\n```{language}\n{json.dumps(value, indent=1)}\n```\n{after}"
        data, error = read_data(text, ANY)
        assert error is None and (data == value or data == _bare(text))


def _bare(text: str) -> Any:
    """Return a text parsed as JSON, such as prose that is a number alone."""
    try:
        return json.loads(text)
    except ValueError:
        return None


@given(st.text(st.sampled_from('[{"}],:0a\\ `\n')) | st.text())
def test_every_text_yields_data_or_a_reason(text: str) -> None:
    data, error = read_data(text, {"type": "object"})
    assert (error is None) is isinstance(data, dict)
    if error is None:
        json.dumps(data, ensure_ascii=False, allow_nan=False).encode()


@pytest.mark.parametrize(
    ("text", "robots"),
    [
        ('{"robots": 2}', 2),
        ('I see [two] of {them}: {"robots": 2}. Good.', 2),
        ('First {"robots": "two"}, no: {"robots": 2}', 2),
        ('```json\n{"robots": 2}\n```', 2),
        ('```json\n{"robots": 2}', 2),
        ('{"robots": 2, "note": "a\nb\tc"}', 2),  # raw control characters
    ],
)
def test_the_first_value_that_fits_the_schema_is_taken(text: str, robots: int) -> None:
    data, error = read_data(text, ROBOTS)
    assert error is None and data["robots"] == robots


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "holds no JSON"),
        ("Two robots.", "holds no JSON"),
        ('{"robots": "two"}', "does not fit the schema at $.robots: 'two' is not of type 'integer'"),
        ("[1, 2]", "[1, 2] is not of type 'object'"),
        ('{"robots": 2', "not JSON: Expecting ',' delimiter"),
        ('{"all": {"robots": 2}, {"robots": 3}', "not JSON"),  # a part of a broken answer is no answer
        ('{"robots": NaN}', "NaN is no number that can be used"),
        ('{"robots": 1e999}', "1e999 is no number that can be used"),
        ('{"robots": 1' + "0" * 309 + "}", "it is not JSON: 10000000000000000000... is no number"),
        ('{"robots": -' + "9" * 10_000 + "}", "it is not JSON: -9999999999999999999... is no number"),
        ('{"robots": 1, "name": "\\ud83d"}', "half of a surrogate pair"),
        ("[" * 100_000, "not JSON"),
        ('{"robots": 1, "deep": ' + "[" * 100 + "]" * 100 + "}", f"more than {DEPTH_LIMIT} levels"),
    ],
)
def test_data_that_does_not_fit_has_a_reason(text: str, reason: str) -> None:
    data, error = read_data(text, ROBOTS)
    assert data is None and error is not None and reason in error and len(error) <= 500


class ScriptedAnswers:
    """An engine that returns one text after the other, or raises a Failure."""

    name, concurrency, startup_logs = "saying", 1, []

    def __init__(self, *answers: str | Failure) -> None:
        self._said = list(answers)
        self.jobs: list[Job] = []

    def load(self, model_dir: Path) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    async def run(self, job: Job, workdir: Path) -> Answer:
        self.jobs.append(job)
        next_answer = self._said.pop(0)
        if isinstance(next_answer, Failure):
            raise next_answer
        return Answer(
            text=next_answer,
            finish_reason="stop",
            usage=Usage(prompt_tokens=10, completion_tokens=1),
            timings={"generate": 1.5},
            logs=[f"said {next_answer}"],
        )


def answer(engine: ScriptedAnswers, job: Job, workdir: Path) -> Answer:
    return asyncio.run(run_with_schema(engine, job, workdir))


def test_without_a_schema_the_answer_has_no_data(tmp_path: Path) -> None:
    result = answer(ScriptedAnswers('{"robots": 2}'), make_job("a.png"), tmp_path)
    assert (result.data, result.data_error) == (None, None)


def test_an_answer_that_fits_is_requested_once(tmp_path: Path) -> None:
    engine = ScriptedAnswers('So: {"robots": 2}')
    result = answer(engine, make_job("a.png", jsonSchema=ROBOTS), tmp_path)
    assert (result.text, result.data, result.data_error) == ('So: {"robots": 2}', {"robots": 2}, None)
    assert len(engine.jobs) == 1


def test_an_answer_that_does_not_fit_is_requested_again_with_the_reason(tmp_path: Path) -> None:
    engine = ScriptedAnswers("Two.", '{"robots": 2}')
    result = answer(engine, make_job("a.png", "How many?", jsonSchema=ROBOTS), tmp_path)
    assert result.data == {"robots": 2} and result.text == '{"robots": 2}'
    first, second = engine.jobs
    assert first.prompt == "How many?"
    assert second.prompt is not None and second.prompt.startswith("How many?\n\nAn earlier answer was not accepted: ")
    assert "it holds no JSON" in second.prompt and "\nTwo.\n" in second.prompt
    assert result.usage == Usage(prompt_tokens=20, completion_tokens=2)
    assert result.timings == {"generate": 3.0}
    assert result.logs[0] == "said Two." and "asked once more" in result.logs[1]


def test_a_second_answer_that_does_not_fit_is_delivered_with_the_reason(tmp_path: Path) -> None:
    engine = ScriptedAnswers("Two.", "Three.")
    result = answer(engine, make_job("a.png", jsonSchema=ROBOTS), tmp_path)
    assert (result.text, result.data, result.data_error) == ("Three.", None, "it holds no JSON")
    assert len(engine.jobs) == 2


def test_the_first_answer_is_delivered_if_the_second_request_fails(tmp_path: Path) -> None:
    result = answer(
        ScriptedAnswers("Two.", Failure("InvalidInput", "Too long.", "r")),
        make_job("a.png", jsonSchema=ROBOTS),
        tmp_path,
    )
    assert (result.text, result.data_error) == ("Two.", "it holds no JSON")
    assert "Too long." in result.logs[-1]


def test_a_failure_of_the_first_request_fails_the_job(tmp_path: Path) -> None:
    with pytest.raises(Failure):
        answer(ScriptedAnswers(Failure("InvalidInput", "m", "r")), make_job("a.png", jsonSchema=ROBOTS), tmp_path)


BOX = '[{"bbox_2d": [0, 500, 1000, 1000], "label": "load"}]'


@pytest.mark.parametrize(("orientation", "pixels"), [(1, [0, 24, 64, 48]), (6, [0, 32, 48, 64])])
def test_a_tasks_boxes_are_also_in_pixels_of_the_upright_picture(
    tmp_path: Path, orientation: int, pixels: list[int]
) -> None:
    from PIL import Image

    exif = Image.Exif()
    exif[0x0112] = orientation
    picture = media_files.image(tmp_path / "source.jpg", 64, 48, exif=exif)
    schema = TASKS["2d-grounding"].schema
    job = make_job("a.jpg", task="2d-grounding", jsonSchema=schema)
    place(picture, job, tmp_path / "work")
    assert answer(ScriptedAnswers(BOX), job, tmp_path / "work").data[0]["bbox_pixels"] == pixels
    plain = answer(ScriptedAnswers(BOX), make_job("a.jpg", jsonSchema=schema), tmp_path / "work")
    assert plain.data == json.loads(BOX), "what fits a schema of the caller's own stays as it is"


@pytest.mark.parametrize(("rotation", "pixels"), [(None, [0, 64, 160, 128]), (90, [0, 80, 128, 160])])
def test_boxes_in_a_video_too(tmp_path: Path, rotation: int | None, pixels: list[int]) -> None:
    clip = media_files.video(tmp_path / "source.mp4", rotation=rotation)
    job = make_job("a.mp4", task="2d-grounding", jsonSchema=TASKS["2d-grounding"].schema)
    place(clip, job, tmp_path / "work")
    assert answer(ScriptedAnswers(BOX), job, tmp_path / "work").data[0]["bbox_pixels"] == pixels


def test_times_of_a_task_are_added_in_the_other_notation(tmp_path: Path) -> None:
    text = '```json\n[{"start": "00:01.50", "end": "01:00.25", "caption": "A robot."}]\n```'
    task = "temporal-localization-mmss"
    job = make_job("a.mp4", task=task, jsonSchema=TASKS[task].schema)
    place(media_files.video(tmp_path / "source.mp4"), job, tmp_path / "work")
    result = answer(ScriptedAnswers(text), job, tmp_path / "work")
    assert result.data == [
        {"start": "00:01.50", "end": "01:00.25", "caption": "A robot.", "start_seconds": 1.5, "end_seconds": 60.25}
    ]


@pytest.mark.parametrize(
    ("events", "parameters", "note"),
    [
        ([{"start": 0, "end": 4.4, "caption": "a"}], {}, None),
        ([{"start": 1.0, "end": 99.0, "caption": "a"}], {}, "0.0 to 4.0 s, are in the answer: 99 s."),
        ([{"start": "00:01.00", "end": "01:02", "caption": "a"}], {}, "in the answer: 62 s."),
        ([{"start": 0, "end": 2, "caption": "a"}], {"start": 2}, "2.0 to 4.0 s, are in the answer: 0 s."),
        ([{"start": 1, "end": 3, "caption": "a"}], {"end": 2}, "0.0 to 2.0 s, are in the answer: 3 s."),
        ([{"start": 10 + at, "end": 10, "caption": "a"} for at in range(4)], {}, "10, 10, 11, 10, 12 s and 3 more."),
    ],
)
def test_times_outside_of_the_video_are_noted(
    tmp_path: Path, events: Any, parameters: dict[str, Any], note: str | None
) -> None:
    name = "temporal-localization-mmss" if isinstance(events[0]["start"], str) else "temporal-localization"
    job = make_job("a.mp4", task=name, jsonSchema=TASKS[name].schema, **parameters)  # type: ignore[index]
    place(media_files.video(tmp_path / "source.mp4"), job, tmp_path / "work")
    notes = answer(ScriptedAnswers(json.dumps(events)), job, tmp_path / "work").notes
    assert notes == [] if note is None else note in notes[0]


@pytest.mark.parametrize("digits", [310, 5000])  # Python's own limit for an integer is 4300
def test_a_time_of_endless_digits_does_not_fail_the_job(tmp_path: Path, digits: int) -> None:
    text = '[{"start": 1, "end": ' + "3" * digits + ', "caption": "a"}]'
    job = make_job("a.mp4", task="temporal-localization", jsonSchema=TASKS["temporal-localization"].schema)
    place(media_files.video(tmp_path / "source.mp4"), job, tmp_path / "work")
    result = answer(ScriptedAnswers(text, text), job, tmp_path / "work")
    assert (result.text, result.data) == (text, None)
    assert result.data_error == "it is not JSON: 33333333333333333333... is no number that can be used"
    asked_again = answer(ScriptedAnswers(text, '[{"start": 1, "end": 3, "caption": "a"}]'), job, tmp_path / "work")
    assert asked_again.data[0]["end_time"] == "00:03.00"


def test_the_largest_number_that_is_a_float_is_taken() -> None:
    assert read_data(f"[{10**308}]", ANY) == ([10**308], None)


def test_numbers_that_cannot_be_divided_are_reported() -> None:
    data, error = read_data("1.5", {"multipleOf": 10**400})
    assert data is None and error is not None and "cannot be checked" in error


LONG_SCHEMA: dict[str, Any] = {"items": {"anyOf": [{"enum": ["x" * 16_000]}, {"type": "integer"}]}}
LONG = [1] * 4000


def test_a_long_answer_is_checked_against_a_long_schema() -> None:
    """The check runs in a process of its own."""
    assert read_data(json.dumps(LONG), LONG_SCHEMA) == (LONG, None)
    data, error = read_data(json.dumps(["z" * 10_000]), LONG_SCHEMA)
    assert data is None and error is not None and "does not fit the schema at $[0]" in error


def test_a_check_that_takes_too_long_is_stopped_and_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_check, "CHECK_SECONDS", 0.01)
    checks: list[Any] = []

    def counted(value: Any, schema: Any) -> str | None:
        checks.append(value)
        return schema_check.schema_problem(value, schema)

    monkeypatch.setattr(json_answers, "schema_problem", counted)
    saying = ScriptedAnswers(json.dumps(LONG))
    result = answer(saying, make_job("a.mp4", jsonSchema=LONG_SCHEMA), tmp_path)
    assert result.data is None and result.data_error == UNCHECKED
    assert len(saying.jobs) == 1 and checks == [LONG], "one limit for all of the answer"
