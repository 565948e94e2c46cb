"""A command that is killed while it saves leaves a hidden folder behind, which the next command removes."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cosmos_batch.cli.output import OutputTarget

# Saves a file, says so in the middle of it, and goes on when its standard input ends.
SAVING = """
import sys
from pathlib import Path
from cosmos_batch.cli.output import OutputTarget

def write(path):
    path.write_text("half")
    print("saving", flush=True)
    sys.stdin.read()

OutputTarget(Path(sys.argv[1]), False, force=True).save("", write)
"""


@pytest.fixture
def saving(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that is saving a file in the folder."""
    command = [sys.executable, "-c", SAVING, str(tmp_path / "theirs.csv")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "saving\n"
        yield process
        process.kill()


def save_ours(folder: Path) -> None:
    OutputTarget(folder / "ours.csv", False, force=True).save("", lambda path: path.write_text("whole"))


def test_what_a_killed_command_left_is_removed_by_the_next(tmp_path: Path, saving: subprocess.Popen[str]) -> None:
    saving.kill()
    saving.wait()
    [left] = tmp_path.iterdir()
    assert (left / "result").read_text() == "half"
    save_ours(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["ours.csv"]


def test_what_another_command_is_writing_stays(tmp_path: Path, saving: subprocess.Popen[str]) -> None:
    save_ours(tmp_path)
    assert saving.stdin is not None
    saving.stdin.close()
    assert saving.wait() == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ours.csv", "theirs.csv"]
    assert (tmp_path / "theirs.csv").read_text() == "half"
