"""Every manifest of `docs/runs.md` validates, and every command of it parses."""

import json
import re
import shlex
from pathlib import Path

import pytest

from cosmos_batch.contract.generation.serving import Serving
from cosmos_batch.contract.runs import RunRequest
from cosmos_batch.planning.runs.item_checks import RunRules
from cosmos_batch.planning.runs.line_problems import WrongLine
from cosmos_batch.planning.runs.manifest import FIELDS, ID_LIMIT, read_line
from cosmos_batch.planning.runs.sweep import Sweep
from tests.support.command_line import parse

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "runs.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
LINES = [line for language, block in BLOCKS if language == "jsonl" for line in block.splitlines()]


def rules(pipeline: str) -> RunRules:
    serving = Serving(engine="diffusers", guardrails=False, max_resolution="720p", plans={})
    request = RunRequest(id="run", pipelines=[pipeline], prompt="What?", output="s3://my-bucket/made/")
    return RunRules(request, Sweep(), ["my-bucket"], {"cosmos3-nano": serving})


def test_every_manifest_of_the_page_is_valid() -> None:
    assert len(LINES) == 6
    for line in LINES:
        is_generation = "resolution" in line or "numFrames" in line
        read_line(line.encode(), rules("cosmos3-nano" if is_generation else "cosmos-reason2-2b"))


def test_a_manifest_that_is_changed_is_not(line: str = LINES[0]) -> None:
    with pytest.raises(WrongLine):
        read_line(json.dumps({**json.loads(line), "promt": "x"}).encode(), rules("cosmos-reason2-2b"))


def test_the_table_of_fields_is_that_of_the_code() -> None:
    rows = re.findall(r"^\| (`\w+`.*?) \|", PAGE[PAGE.index("### Manifests") :], re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert set(FIELDS) <= named
    assert f"at most {ID_LIMIT} characters" in PAGE


def test_the_commands_of_the_page_parse() -> None:
    lines = [line for language, block in BLOCKS if not language for line in block.splitlines()]
    commands = [line[line.index("cosmos-batch ") :] for line in lines if "cosmos-batch " in line]
    assert len(commands) >= 7
    for command in commands:
        parse(shlex.split(command.partition(" > ")[0], comments=True)[1:])
