"""Input that cannot be used is refused through the callback, with a code, the cause and a remedy."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import media_files
from tests.support.deployed_app import TWO_B, App, error_of
from tests.support.vams_workflow import Vams


def refused(app: App, **start: Any) -> dict[str, Any]:
    """Return the Error that VAMS's execution ends with."""
    return error_of(app.ended(Vams.of(app).start(**start)))


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("disguised.heic", media_files.avif_named_heic),
        ("text.mp4", media_files.text_named_mp4),
        ("truncated.mp4", media_files.mp4_without_index),
        ("half.mp4", media_files.mp4_without_its_end),
        ("noframes.mp4", media_files.mp4_without_frames),
        ("wide.png", media_files.wide_png),
    ],
)
def test_a_file_that_is_not_what_it_says(app: App, tmp_path: Path, name: str, make: Callable[[Path], Path]) -> None:
    app.upload(f"asset-1/bad/{name}", make(tmp_path))
    error = refused(app, key=f"asset-1/bad/{name}")
    assert error["code"] == "InvalidInput"
    assert not error["retryable"]


def test_an_empty_file_is_refused(app: App) -> None:
    app.upload("asset-1/empty.mp4", b"")
    assert "empty" in refused(app, key="asset-1/empty.mp4")["message"]


def test_a_missing_and_a_deleted_file(app: App, picture: Path) -> None:
    assert "does not exist" in refused(app, key="asset-1/missing.png")["message"]
    app.upload("asset-1/deleted.png", picture)
    app.client("s3").delete_object(Bucket=app.assets, Key="asset-1/deleted.png")
    assert "deleted" in refused(app, key="asset-1/deleted.png")["message"]


@pytest.mark.parametrize(("key", "words"), [("asset-1/", "folder"), ("asset-1/notes.txt", "not supported")])
def test_a_file_whose_name_is_no_input_is_refused(app: App, key: str, words: str) -> None:
    app.upload(key, b"x")
    assert words in refused(app, key=key)["message"]


def test_a_prompt_over_its_limit_is_refused_and_a_prompt_just_under_is_answered(app: App, picture: Path) -> None:
    app.upload("asset-1/p.png", picture)
    longest = "ü" * (16 * 1024)  # 32 KB of UTF-8
    error = refused(app, key="asset-1/p.png", parameters={"prompt": longest + "!"})
    assert "32" in error["message"]
    vams = Vams.of(app)
    arn = vams.start("asset-1/p.png", parameters={"prompt": longest})
    assert app.ended(arn)["status"] == "SUCCEEDED"
    [key] = app.keys(vams.output_of(arn))
    document = json.loads(app.client("s3").get_object(Bucket=app.assets, Key=key)["Body"].read())
    assert document["userPrompt"] == longest


def test_places_outside_of_the_configured_buckets(app: App, picture: Path) -> None:
    app.upload("asset-1/p.png", picture)
    error = refused(app, key="asset-1/p.png", output="s3://somebody-elses-bucket/out/")
    assert "outside" in error["message"]
    arn = app.start({"pipeline": TWO_B, "input": "s3://somebody-elses-bucket/p.png"})
    assert "outside" in error_of(app.ended(arn))["message"]


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"pipeline": "cosmos-reason9"}, ["cosmos-reason9", TWO_B]),
        ({"pipeline": TWO_B, "promt": "typo"}, ["promt", "unknown field"]),
        ({"pipeline": TWO_B}, ["input", "missing"]),
        ({}, ["pipeline", "missing"]),
        ([], ["JSON object"]),
    ],
)
def test_a_mistyped_input_of_an_execution_is_refused_with_the_wrong_field(
    app: App, request_: Any, words: list[str]
) -> None:
    if isinstance(request_, dict) and request_.get("pipeline") == "cosmos-reason9":
        request_ = {**request_, "input": f"s3://{app.assets}/p.png"}
    error = error_of(app.ended(app.start(request_)))
    assert error["code"] == "InvalidInput"
    for word in words:
        assert word in error["message"] + error["remedy"]
