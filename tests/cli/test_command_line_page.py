"""`docs/command-line.md` tells of the exit statuses and commands that there are."""

import re
import shlex
from pathlib import Path

from cosmos_batch.cli import errors
from cosmos_batch.cli.main import COMMANDS
from tests.support.command_line import parse

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")


def test_the_exit_statuses_are_those_of_the_code() -> None:
    table = PAGE.partition("## Exit statuses")[2].partition("## ")[0]
    told = {int(number) for row in re.findall(r"^\| ([\d, ]+) \|", table, re.MULTILINE) for number in row.split(",")}
    assert told == {0, *(value for name, value in vars(errors).items() if name.isupper() and name[0] != "_")}


def test_every_command_on_the_page_exists() -> None:
    blocks = re.findall(r"^```\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines()]
    assert lines
    for line in lines:
        parse(shlex.split(re.split(" >", line)[0])[1:])
    assert set(re.findall(r"`cosmos-batch ([a-z-]+)", PAGE)) <= set(COMMANDS)
    jobs = re.findall(r"^\| `cosmos-batch ([a-z]+)", PAGE, re.MULTILINE)
    assert set(jobs) == {"status", "wait", "result", "logs", "cancel", "retry"}
