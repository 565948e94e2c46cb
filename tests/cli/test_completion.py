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
]

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
    words = line.split()
    variables = {
        "bash": {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)},
        "zsh": {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)},
        "fish": {"COMP_WORDS": line, "COMP_CWORD": words[-1]},
    }[shell]
    asked = environment(_COSMOS_BATCH_COMPLETE=f"{shell}_complete", **variables)
    answer = subprocess.run([PROGRAM], env=asked, capture_output=True, text=True, check=False).stdout.splitlines()
    if shell == "zsh":  # three lines for each: its kind, the word and what it does
        assert answer[::3] == ["plain"] * len(candidates)
        assert answer[1::3] == candidates
    else:
        assert [word.partition("\t")[0] for word in answer] == [f"plain,{candidate}" for candidate in candidates]


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
