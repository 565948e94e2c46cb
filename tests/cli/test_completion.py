"""The scripts of `cosmos-batch completion`, and the candidates that a shell gets from them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).with_name("cosmos-batch")

# Words as they stand before the cursor, and what the last of them may become.
CASES = [
    ("cosmos-batch sub", ["submit"]),
    ("cosmos-batch runs re", ["resume", "retry"]),
    ("cosmos-batch run --lo", ["--long-video"]),
    ("cosmos-batch run --task 2d", ["2d-grounding"]),
    ("cosmos-batch generate --mode i2", ["i2v"]),
    ("cosmos-batch runs export RUN --format p", ["parquet"]),
    ("cosmos-batch status --state fa", ["failed"]),
    ("cosmos-batch completion z", ["zsh"]),
]

# Where a file is meant, the shell completes its name.
FILES = ["cosmos-batch run cl", "cosmos-batch view an", "cosmos-batch submit --prompt-file pr"]

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
    return {"PATH": f"{PROGRAM.parent}:{os.environ['PATH']}", "HOME": os.environ["HOME"], **variables}


@pytest.mark.parametrize(("line", "candidates"), CASES)
@pytest.mark.parametrize("shell", SHELLS)
def test_the_program_answers_each_shell_with_the_candidates(shell: str, line: str, candidates: list[str]) -> None:
    """What the scripts ask and read, with and without the shells at hand."""
    assert answered(shell, line) == [f"plain,{candidate}" for candidate in candidates]


@pytest.mark.parametrize("line", FILES)
@pytest.mark.parametrize("shell", SHELLS)
def test_names_of_files_are_left_to_the_shell(shell: str, line: str) -> None:
    assert answered(shell, line) == [f"file,{line.split()[-1]}"]


def answered(shell: str, line: str) -> list[str]:
    """Return what the program answers a shell that completes a line: of each candidate its kind and the word."""
    words = line.split()
    number = words[-1] if shell == "fish" else str(len(words) - 1)
    asked = environment(_COSMOS_BATCH_COMPLETE=f"{shell}_complete", COMP_WORDS=line, COMP_CWORD=number)
    answer = subprocess.run([PROGRAM], env=asked, capture_output=True, text=True, check=False).stdout.splitlines()
    if shell == "zsh":  # three lines for each: its kind, the word and what it does
        return [f"{kind},{word}" for kind, word in zip(answer[::3], answer[1::3], strict=True)]
    return [word.partition("\t")[0] for word in answer]


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
