"""A checkpoint that already lies in the worker's file system: baked into the image, mounted, or a person's own."""

import hashlib
from datetime import UTC, datetime
from pathlib import Path

from cosmos_batch.contract import Failure

# Files up to this many bytes are digested by content; weights by size and time of change, since reading them all
# again at every start would cost more than it tells.
_SMALL = 1 << 20
_DIGEST_DIGITS = 40


def check(folder: Path) -> None:
    """Make sure that `folder` is a checkpoint.

    Raises:
        Failure: `ModelUnavailable` if it is missing or has no `config.json`.
    """
    if (folder / "config.json").is_file():
        return
    problem = "has no config.json" if folder.is_dir() else "is not a directory"
    raise Failure(
        "ModelUnavailable",
        f"The model folder {folder} {problem}.",
        "Set the pipeline's `model` to the absolute path of a checkpoint folder as the worker sees it, or to a Hugging "
        "Face id.",
    )


def digest(folder: Path) -> str:
    """A name for the folder's state, in the place of a commit: equal if names, sizes, and contents or times are equal."""
    state = hashlib.sha256()
    for path in _files(folder):
        stat = path.stat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.st_size <= _SMALL else str(stat.st_mtime_ns)
        state.update(f"{path.relative_to(folder)}\0{stat.st_size}\0{content}\0".encode(errors="surrogateescape"))
    return state.hexdigest()[:_DIGEST_DIGITS]


def changed_at(folder: Path) -> datetime:
    """When a file of the folder last changed (UTC)."""
    return datetime.fromtimestamp(max(path.stat().st_mtime for path in _files(folder)), UTC)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())
