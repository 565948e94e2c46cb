"""The scripts of `cosmos-batch completion`, and the candidates that a shell gets from them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from cosmos_batch.cli.main import COMMANDS
from tests.support.command_line import commands

PROGRAM = Path(sys.executable).with_name("cosmos-batch")

# Words as they stand before the cursor, and what the last of them may become.
CASES = [
    ("cosmos-batch sub", ["submit"]),
    ("cosmos-batch runs re", ["resume", "retry"]),
    ("cosmos-batch run --lo", ["--long-video"]),
    ("cosmos-batch run --task 2d", ["2d-grounding"]),
    ("cosmos-batch generate --mode i2", ["i2v"]),
    ("cosmos-batch generate --resolution 25", ["256p"]),
    ("cosmos-batch generate --domain-name lib", ["libero"]),
    ("cosmos-batch generate --aspect-ratio 9", ["9:16"]),
    ("cosmos-batch generate --view-point wr", ["wrist_view"]),
    ("cosmos-batch generate --pipeline cosmos3-n", ["cosmos3-nano"]),
    ("cosmos-batch submit --pipeline cosmos-reason2-2", ["cosmos-reason2-2b"]),
    ("cosmos-batch runs start --pipeline cosmos-reason2-2", ["cosmos-reason2-2b"]),
    ("cosmos-batch doctor --pipeline cosmos-reason2-2", ["cosmos-reason2-2b"]),
    ("cosmos-batch status --pipeline cosmos-reason2-2", ["cosmos-reason2-2b"]),
    ("cosmos-batch runs export RUN --format p", ["parquet"]),
    ("cosmos-batch status --state fa", ["failed"]),
    ("cosmos-batch completion z", ["zsh"]),
]

# Where a file is meant, the shell completes its name.
FILES = ["cosmos-batch run cl", "cosmos-batch run --output an", "cosmos-batch submit --prompt-file pr"]

# Each script gets the completion script as its first argument and the words as its second, and prints the candidates.
SHELLS = {
    "bash": """
        source "$1"
        COMP_WORDS=($2); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _cosmos_batch_completion cosmos-batch
        printf '%s\\n' "${COMPREPLY[@]}"
    """,
    # Outside of an editing session zsh has no completion widgets: these two functions print what they would offer.
    "zsh": """
        compdef() { : }
        compadd() { local name=${@[-1]}; print -l -- "${(@P)name}" }
        _describe() { local entries=("${(@P)3}"); print -l -- "${(@)entries%%:*}" }
        words=(${=2}); CURRENT=${#words}
        source "$1"
        _cosmos_batch_completion
    """,
    "fish": 'source "$argv[1]"; complete --do-complete "$argv[2]" | string split --fields 1 \\t',
}


def environment(**variables: str) -> dict[str, str]:
    return {**os.environ, "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}", **variables}


@pytest.mark.parametrize(
    ("shell", "line", "candidates"),
    [*(("bash", *case) for case in CASES), *((shell, *case) for shell in ("zsh", "fish") for case in CASES[:3])],
)
def test_the_program_answers_each_shell_with_the_candidates(shell: str, line: str, candidates: list[str]) -> None:
    """What the scripts ask and read, with and without the shells at hand."""
    assert answered(shell, line) == [f"plain,{candidate}" for candidate in candidates]


@pytest.mark.parametrize(("shell", "line"), list(zip(SHELLS, FILES, strict=True)))
def test_names_of_files_are_left_to_the_shell(shell: str, line: str) -> None:
    assert answered(shell, line) == [f"file,{line.split()[-1]}"]


def test_every_option_that_takes_a_file_completes_its_name() -> None:
    options = [option for command in commands().values() for option in command.params if option.metavar]
    takes_files = [option for option in options if re.search(r"\b(FILE|FOLDER|PATH|DIR)\b", option.metavar or "")]
    assert len(takes_files) > 20
    texts = [option.name for option in takes_files if not isinstance(option.type, click.Path)]
    assert set(texts) == {"prompt", "prompts", "system_prompt", "negative_prompt"}, "which are text in most cases"


def test_names_of_commands_are_completed_without_importing_them() -> None:
    asked = environment(_COSMOS_BATCH_COMPLETE="bash_complete", COMP_WORDS="cosmos-batch ", COMP_CWORD="1")
    script = "import sys\nfrom cosmos_batch.cli.main import main\ntry: main([])\nfinally: print(*sys.modules)"
    answer = subprocess.run(
        [sys.executable, "-c", script], env=asked, capture_output=True, text=True, check=False
    ).stdout
    *words, loaded = answer.splitlines()
    assert words == [f"plain,{name}" for name in COMMANDS]
    assert not {"boto3", "pydantic", "cosmos_batch.cli.commands.run"} & set(loaded.split())


def answered(shell: str, line: str) -> list[str]:
    """Return what the program answers a shell that completes a line: of each candidate its kind and the word."""
    words = line.split()
    number = words[-1] if shell == "fish" else str(len(words) - 1)
    asked = environment(_COSMOS_BATCH_COMPLETE=f"{shell}_complete", COMP_WORDS=line, COMP_CWORD=number)
    answer = subprocess.run([PROGRAM], env=asked, capture_output=True, text=True, check=False).stdout.splitlines()
    if shell == "zsh":  # three lines for each: its kind, the word and what it does
        return [f"{kind},{word}" for kind, word in zip(answer[::3], answer[1::3], strict=True)]
    return [word.partition("\t")[0] for word in answer]


def test_fish_shows_what_a_command_does_and_names_with_a_comma_whole(tmp_path: Path) -> None:
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    script = tmp_path / "completion"
    script.write_text(
        subprocess.run([PROGRAM, "completion", "fish"], capture_output=True, text=True, check=True).stdout
    )
    (tmp_path / "clip,1.mp4").touch()
    ask = 'source "$argv[1]"; complete --do-complete "$argv[2]"'
    for line, shown in (("cosmos-batch sub", f"submit\t{COMMANDS['submit']}"), ("cosmos-batch run cl", "clip,1.mp4")):
        command = ["fish", "-c", ask, script, line]
        run = subprocess.run(command, env=environment(), cwd=tmp_path, capture_output=True, text=True, check=False)
        assert run.stdout == f"{shown}\n", run.stderr


def test_the_script_for_fish_splits_an_answer_at_its_first_comma_alone() -> None:
    script = subprocess.run(
        [PROGRAM, "completion", "fish"], env=environment(), capture_output=True, text=True, check=True
    )
    assert re.findall(r"string split[^;]*", script.stdout) == ['string split --max 1 "," $completion)']


@pytest.mark.parametrize(("line", "candidates"), CASES[:2])
@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_that_has_read_the_script_offers_the_candidates(
    shell: str, line: str, candidates: list[str], tmp_path: Path
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "completion"
    written = subprocess.run([PROGRAM, "completion", shell], capture_output=True, text=True, check=True)
    script.write_text(written.stdout)
    arguments = [script, line] if shell == "fish" else [shell, script, line]
    run = subprocess.run(
        [shell, "-c", SHELLS[shell], *arguments], env=environment(), capture_output=True, text=True, check=False
    )
    assert run.stdout.split() == candidates, run.stderr
