"""Save results by `--output` and `--force`, which have the same meaning in every command."""

import fcntl
import filecmp
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any, TypeVar

import click

from cosmos_batch.cli.command_line import option
from cosmos_batch.cli.errors import CliError, WrongCall, file_problem

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

SCRATCH, LOCK = ".cosmos-batch-", "lock"
SECTION = "Where results are saved"


@dataclass(frozen=True)
class OutputTarget:
    """A file, or a folder where results are saved under their own names."""

    path: Path
    is_folder: bool
    force: bool
    _saved: set[Path] = field(default_factory=set, repr=False)

    def save(self, name: str, write: Callable[[Path], object], renames: bool = False) -> Path:
        """Have a result written, under `name` where this is a folder. Returns its path.

        It takes its place when it is complete. A file that exists with other content is kept, and CliError raised,
        unless `force` is set. Of several results with one name, such as those of two buckets, the second gets a number;
        with `renames`, so does one whose name another file has. Raises OSError where it cannot be written.
        """
        path = self.path / name if self.is_folder else self.path
        path.parent.mkdir(parents=True, exist_ok=True)
        with _scratch_folder(path if path.is_dir() else path.parent) as scratch:
            written = scratch / "result"
            write(written)
            path = self._free(path, written, renames)
            if path.exists() and not self.force and not _is_same(path, written):
                raise CliError(f"{path} exists, and was kept.", "--force replaces it; or name another --output.")
            _move(written, path)
            self._saved.add(path)
        return path

    def _free(self, path: Path, written: Path, renames: bool) -> Path:
        """Return the path, with a number if this command has saved another result there."""
        numbered = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in count(2))
        return next(
            other
            for other in chain([path], numbered)
            if not (other.exists() if renames else other in self._saved) or _is_same(other, written)
        )


def output_options(default: str | None = None) -> Callable[[Decorated], Decorated]:
    """Add `--output` and `--force` to a command."""

    def decorate(function: Decorated) -> Decorated:
        function = option(
            "--force", is_flag=True, section=SECTION, help="Replace files that exist. Without it they are kept."
        )(function)
        return option(
            "--output", metavar="PATH", type=click.Path(), default=default, section=SECTION,
            help="Save there: a folder where PATH ends in / or is one, else a file. Prints what was saved"
            + ("; default: this folder" if default == "." else "") + ".",
        )(function)  # fmt: skip

    return decorate


def output_target(output: str | None, force: bool, several: str | None) -> OutputTarget | None:
    """Return where to save, having checked that it can be written; None where nothing is to be saved.

    `several` says what the files are where more than one is to be saved. Raises WrongCall.
    """
    if output is None:
        return None
    path = Path(output).expanduser()
    target = OutputTarget(path, output.endswith("/") or path.is_dir(), force)
    if several and not target.is_folder:
        remedy = "Name a folder that has another name." if path.exists() else f"Name a folder: --output {output}/"
        raise WrongCall(f"--output {output} names one file, and there are several to save: {several}.", remedy)
    if not target.is_folder and path.exists() and not force:
        raise WrongCall(f"{path} exists.", "--force replaces it; or name another --output.")
    _refuse_unwritable(path if target.is_folder else path.parent, output)
    return target


def new_folder(output: str) -> OutputTarget:
    """Return the target of a result that is a folder of its own, having checked that it can be written.

    An empty folder, or one with nothing but what killed commands have left, is taken. Raises WrongCall.
    """
    path = Path(output).expanduser()
    if path.exists() and not (path.is_dir() and all(child.name.startswith(SCRATCH) for child in path.iterdir())):
        raise WrongCall(f"{path} exists and is no empty folder.", "Name a new folder.")
    _refuse_unwritable(path, output)
    return OutputTarget(path, is_folder=False, force=True)


def _refuse_unwritable(folder: Path, output: str) -> None:
    """Raise WrongCall, which quotes what was typed, if a folder cannot be written or created."""
    try:
        _try_to_create(folder.resolve())
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links
        raise WrongCall(f"{output} cannot be written: {file_problem(error)}.", "Name another folder.") from error


def _try_to_create(folder: Path) -> None:
    """Raise OSError if a folder cannot be written or created. Nothing stays: the command may still be refused."""
    existing = next(above for above in (folder, *folder.parents) if above.exists())
    with _scratch_folder(existing) as scratch:
        (scratch / folder.relative_to(existing)).mkdir(parents=True, exist_ok=True)


@contextmanager
def _scratch_folder(parent: Path) -> Iterator[Path]:
    """Provide a hidden folder for files that are being written, and remove those of commands that were killed.

    A command holds the lock of its folder, and the system releases that when its process ends, however it ends.
    """
    for other in parent.glob(f"{SCRATCH}*/{LOCK}"):
        with suppress(OSError), other.open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(other.parent, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=parent, prefix=SCRATCH) as name:
        scratch = Path(name)
        with (scratch / "new-lock").open("w") as lock:
            with suppress(OSError):  # a file system without locks: there the folders of killed commands stay
                fcntl.flock(lock, fcntl.LOCK_EX)
                (scratch / "new-lock").rename(scratch / LOCK)
            yield scratch


def _move(written: Path, path: Path) -> None:
    """Give a result its place. A folder that exists keeps its own: it may be the current one, or a mounted volume."""
    if written.is_dir() and path.is_dir():
        for child in written.iterdir():
            child.replace(path / child.name)
    else:
        written.replace(path)


def _is_same(first: Path, second: Path) -> bool:
    return first.is_file() and second.is_file() and filecmp.cmp(first, second, shallow=False)
