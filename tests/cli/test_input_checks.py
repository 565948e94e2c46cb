"""Errors that the command line alone shows are reported before anything starts."""

import os
from pathlib import Path

import pytest

from cosmos_batch.cli import input_checks
from cosmos_batch.cli.errors import WrongCall, explain
from cosmos_batch.contract.error import Failure


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "clip.mp4").write_bytes(b"content")
    (tmp_path / "empty.mp4").touch()
    (tmp_path / "notes.txt").write_text("text")
    (tmp_path / "folder.mp4").mkdir()
    (tmp_path / "dangling.mp4").symlink_to("nowhere")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.mp4", "does not exist"),
        ("dangling.mp4", "does not exist"),
        ("folder.mp4", "is a folder"),
        ("notes.txt", "of a kind that no pipeline takes"),
        ("empty.mp4", "is empty"),
        (".mp4", "does not exist"),
    ],
)
def test_bad_files_are_named(folder: Path, name: str, message: str) -> None:
    with pytest.raises((WrongCall, Failure), match=message) as caught:
        input_checks.checked_path(str(folder / name))
    explained = explain(caught.value)
    assert explained is not None and name in explained and "\n" in explained, "with a remedy"


@pytest.mark.parametrize(
    "name", ["Mein Film.MP4", "a'b\"c $HOME.png", "🎬.webm", "👩‍🔧 at 3.45\u202fPM.png", "100%+1.jpeg", "-v.mov"]
)
def test_any_file_name_is_accepted(folder: Path, name: str) -> None:
    path = folder / name
    path.write_bytes(b"content")
    assert input_checks.checked_path(str(path)) == path


def test_a_name_that_is_no_text_is_refused(folder: Path) -> None:
    path = folder / os.fsdecode(b"\xff.mp4")
    path.write_bytes(b"content")
    with pytest.raises(WrongCall, match="UTF-8"):
        input_checks.checked_path(str(path))


def test_a_name_with_a_line_break_is_refused(folder: Path) -> None:
    path = folder / "two\nlines.mp4"
    path.write_bytes(b"content")
    with pytest.raises(WrongCall, match="has a line break"):
        input_checks.checked_path(str(path))


def test_without_a_prompt_the_default_prompt_is_used() -> None:
    assert input_checks.checked_prompt(None) == "Caption the video in detail."


@pytest.mark.parametrize("prompt", ["", "  \n"])
def test_an_empty_prompt_is_refused(prompt: str) -> None:
    with pytest.raises(WrongCall, match="prompt is empty"):
        input_checks.checked_prompt(prompt)


def test_the_limit_of_a_prompt_counts_bytes() -> None:
    assert input_checks.checked_prompt("é" * 16_384)
    with pytest.raises(Failure, match="32,770 bytes"):
        input_checks.checked_prompt("é" * 16_385)


def test_a_prompt_that_is_no_text_is_refused() -> None:
    with pytest.raises(WrongCall, match="UTF-8"):
        input_checks.checked_prompt(os.fsdecode(b"\xff"))


def test_the_first_enabled_pipeline_is_chosen() -> None:
    assert input_checks.chosen_pipeline(None, ["small", "large"]) == "small"
    assert input_checks.chosen_pipeline("large", ["small", "large"]) == "large"
    with pytest.raises(WrongCall, match="'other'") as caught:
        input_checks.chosen_pipeline("other", ["small", "large"])
    assert "small, large" in caught.value.remedy
    with pytest.raises(WrongCall, match="No pipeline is enabled"):
        input_checks.chosen_pipeline(None, [])


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("s3://Not_A_Bucket/clip.mp4", "S3 URI"),
        ("s3://bucket/batch/", "is a folder"),
        ("s3://bucket", "is a folder"),
        ("s3://bucket/batch/*.mp4", "is a pattern"),
        ("s3://bucket/batch/*", "is a pattern"),
        ("s3://bucket/notes.txt", "of a kind that no pipeline takes"),
    ],
)
def test_a_uri_that_names_no_single_file_is_refused(uri: str, message: str) -> None:
    with pytest.raises(WrongCall, match=message):
        input_checks.checked_uri(uri)


@pytest.mark.parametrize("uri", ["s3://bucket/batch", "s3://bucket/batch/*", "s3://bucket/batch/*.mp4"])
def test_who_means_a_prefix_is_told_to_end_it_with_a_slash(uri: str) -> None:
    with pytest.raises(WrongCall) as caught:
        input_checks.checked_source_uri(uri)
    assert caught.value.remedy.endswith("To take all files below a prefix, end it with /: s3://bucket/batch/")


def test_a_file_of_another_kind_is_no_prefix() -> None:
    assert input_checks.checked_source_uri("s3://bucket/a.mp4") == "s3://bucket/a.mp4"
    with pytest.raises(WrongCall) as caught:
        input_checks.checked_source_uri("s3://bucket/notes.txt")
    assert "prefix" not in caught.value.remedy


def test_a_key_may_have_any_character() -> None:
    assert input_checks.checked_uri("s3://bucket/a key + 100%.mp4") == "s3://bucket/a key + 100%.mp4"
