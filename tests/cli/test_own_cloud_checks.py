"""`run` refuses what a cloud of its own could not answer before it starts that cloud."""

import io
import json
import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.cli.commands import run
from cosmos_batch.cli.errors import WrongCall
from cosmos_batch.cli.main import main
from cosmos_batch.cli.own_cloud_checks import refuse_before_own_cloud
from cosmos_batch.cli.reasoner_request import ReasonerRequest
from cosmos_batch.contract.parameters import Parameters
from tests.cli.conftest import PIPELINE

LINES = ['{"id": "1", "input": "s3://assets/a.mp4", "promt": "x"}', "{", '{"id": "2", "input": "s3://assets/b.mp4"}']


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a folder with a clip, a picture and a manifest; a cloud that is about to start fails the test."""
    for name in ("clip.mp4", "first.png"):
        (tmp_path / name).write_bytes(b"content")
    (tmp_path / "wrong.jsonl").write_text("\n".join(LINES))
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "d\ne").mkdir()
    (tmp_path / "d\ne" / "clip.mp4").write_bytes(b"content")
    monkeypatch.chdir(tmp_path)

    def start(_: object, config_file: Callable[[], Path], **__: Any) -> None:
        config_file()
        pytest.fail("a cloud was started")

    monkeypatch.setattr(run, "local_deployment", start)
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("line", "messages"),
    [
        ("s3://assets/a.mp4", ["s3://assets/a.mp4 lies in S3, and this command starts a local cloud of its own"]),
        ("s3://assets/clips/ clip.mp4", ["s3://assets/clips/ lies in S3", "--skip-invalid goes on"]),
        ("clip.mp4 --with s3://assets/b.mp4 --skip-invalid", ["s3://assets/b.mp4 lies in S3"]),
        ("wrong.jsonl", ["line 1: promt: is not a known field", "line 2: is not JSON", "line 3: s3://assets/b.mp4"]),
        ("wrong.jsonl --skip-invalid", ["line 1: promt", "line 3: s3://assets/b.mp4 lies in S3"]),
        ("none.jsonl", ["none.jsonl cannot be read"]),
        ("empty.jsonl", ["There is no file to ask about"]),
        ("- < /dev/null", ["There is no file to ask about"]),
        ("- < wrong.jsonl", ["-, line 1: promt: is not a known field", "-, line 2: is not JSON"]),
        ("'d\ne/' clip.mp4", ["'d\\ne/' has a line break", "--skip-invalid goes on"]),
        ("'d\ne/' --skip-invalid", ["'d\\ne/' has a line break"]),
    ],
)  # fmt: skip
def test_what_its_own_cloud_cannot_answer_is_refused_before_it_starts(
    line: str, messages: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names, _, standard_input = line.partition(" < ")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path(standard_input or os.devnull).read_bytes())))
    assert main(["run", "--prompt", "What?", *shlex.split(names)]) == 2
    printed = capsys.readouterr().err
    assert all(printed.count(message) == 1 for message in messages), printed


def refuse(*names: str, engine: str = "auto", skip_invalid: bool = False, further: Sequence[str] | None = None) -> None:
    request = ReasonerRequest("What?", parameters=Parameters(more_inputs=further and list(further)))
    refuse_before_own_cloud(names, request, PIPELINE, engine, ["media.example.com"], skip_invalid)


def test_further_files_of_a_line_that_it_does_not_have_are_named_each(folder: Path) -> None:
    more = {"moreInputs": ["s3://assets/b.png", "c.png"]}
    (folder / "more.jsonl").write_text(json.dumps({"input": "https://media.example.com/a.png", "parameters": more}))
    with pytest.raises(WrongCall) as refused:
        refuse("more.jsonl")
    assert [line.partition(" lies in S3")[0] for line in refused.value.message.splitlines()] == [
        "more.jsonl, line 1: s3://assets/b.png",
        "more.jsonl, line 1: c.png",
    ]


def test_files_that_its_engine_cannot_look_at_are_refused_before_it_starts(folder: Path) -> None:
    for names in (["clip.mp4", "first.png"], [str(folder)]):
        with pytest.raises(WrongCall, match=r"clip\.mp4 is a video; Cosmos Framework looks at images"):
            refuse(*names, engine="cosmos-framework-reasoner")
    refuse("clip.mp4", "first.png", engine="cosmos-framework-reasoner", skip_invalid=True)
    refuse("first.png", engine="cosmos-framework-reasoner")


def test_inputs_that_it_can_answer_are_not_refused(folder: Path) -> None:
    (folder / "web.jsonl").write_text(
        "\n".join(json.dumps(line) for line in (
            {"input": "https://media.example.com/a.mp4"},
            {"id": "2", "inputs": ["https://media.example.com/a.png", "https://media.example.com/b.png"]},
            {"id": "3", "input": "https://media.example.com/a.mp4", "parameters": {"fps": 2}},
        ))
    )  # fmt: skip
    refuse("web.jsonl", "clip.mp4")
    refuse("web.jsonl", further=["first.png"])
    refuse("wrong.jsonl", "clip.mp4", skip_invalid=True)
