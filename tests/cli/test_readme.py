"""The README's commands exist, and the Makefile passes its variables on to them."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from cosmos_batch.catalogue.formats import EXTENSIONS
from cosmos_batch.catalogue.pipelines import ATTRIBUTION
from tests.support.command_line import parse
from tests.test_import_rules import RULES

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FENCED = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
BLOCKS = "\n".join(text for language, text in FENCED if not language)
SPOKEN = BLOCKS + "\n" + "\n".join(re.findall(r"`([^`\n]+)`", README))


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def test_the_page_opens_with_the_two_commands() -> None:
    assert [line.split("#")[0].strip() for line in README.splitlines()[3:5]] == ["make demo", "make test"]


def test_the_third_command_asks_about_a_folder() -> None:
    """`tests/e2e/test_run.py` runs such a command."""
    third = FENCED[1][1].split("#")[0]
    assert shlex.split(third)[:3] == [".venv/bin/cosmos-batch", "run", "clips/"]


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\bmake ([a-z-]+)", SPOKEN))))
def test_make_targets_exist(target: str) -> None:
    assert target in targets()


def test_commands_parse() -> None:
    lines = [line.removeprefix('eval "$(').removesuffix(')"') for line in BLOCKS.splitlines()]
    commands = [
        shlex.split(line)[1:] for line in lines if line.startswith(("cosmos-batch ", ".venv/bin/cosmos-batch "))
    ]
    assert {command[0] for command in commands} == {"local", "run", "runs", "generate", "submit", "result", "view"}
    for command in commands:
        parse(command)


def test_rooms_and_formats_are_those_of_the_code() -> None:
    folders = set(re.findall(r"^\| `([a-z_/]+)/` \|", README, re.MULTILINE))
    assert folders >= set(RULES)
    for extension in EXTENSIONS:
        assert extension in README
    assert ATTRIBUTION in README


def test_every_target_is_explained() -> None:
    listed = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert {line.split()[0] for line in listed.splitlines()} == targets()


@pytest.mark.parametrize("target", ["demo", "demo-generate"])
@pytest.mark.parametrize(
    "value",
    ["my clip.mp4", 'it\'s "quoted".mp4', "🎬 何.mp4", "$HOME $(FILE) `id`.mp4", "a;b&c|d#e\\f.mp4", "two\nlines"],
)
def test_file_and_prompt_arrive_as_they_are(value: str, target: str, tmp_path: Path) -> None:
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    program = tmp_path / ".venv" / "bin" / "cosmos-batch"
    program.write_text('#!/bin/sh\nprintf \'%s|%s\' "$FILE" "$PROMPT"\n')
    program.chmod(0o755)
    (tmp_path / ".venv" / "installed").touch()
    command = ["make", "-s", "-f", str(ROOT / "Makefile"), "-o", ".venv/installed", target]
    ran = subprocess.run([*command, f"FILE={value}", f"PROMPT={value}"], cwd=tmp_path, capture_output=True, text=True)
    assert ran.stdout == f"{value}|{value}", ran.stderr
