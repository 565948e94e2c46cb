"""Checkpoints that are used from a folder of the worker's file system: part of the image, mounted, or on a person's
own machine.
"""

import hashlib
from datetime import UTC, datetime
from pathlib import Path

from cosmos_batch.contract.error import Failure
from cosmos_batch.store.copies import StoredModel

# Files of up to this many bytes enter the digest with their content. Larger ones, the weights, enter it with size and
# time of change, because reading them at every start would take too long.
_SMALL = 1 << 20
_DIGEST_DIGITS = 40
# A folder inside of a folder with this name is a model of this project. Its documented name has both, as on the Hub.
_OWN_ORGANIZATION = "cosmos-batch"
# Every checkpoint has one of these files in its root: that of a model, or that of a pipeline of Diffusers.
_ROOTS = ("config.json", "model_index.json")


def open_checkpoint_folder(folder: Path) -> StoredModel:
    """Return the checkpoint in `folder`, which is used where it is: not copied, backed up or invalidated.

    Raises:
        Failure: `ModelUnavailable` if it is missing or is no checkpoint.
    """
    if not is_checkpoint(folder):
        problem = f"has no {' or '.join(_ROOTS)}" if folder.is_dir() else "is not a directory"
        raise Failure(
            "ModelUnavailable",
            f"The model folder {folder} {problem}.",
            "Set the pipeline's `model` to the absolute path of a checkpoint folder as the worker sees it, or to a "
            "Hugging Face id.",
        )
    files = _files(folder)
    changed_at = datetime.fromtimestamp(max(path.stat().st_mtime for path in files), UTC)
    return StoredModel(_documented_name(folder), _digest(folder, files), folder, changed_at)


def _documented_name(folder: Path) -> str:
    """Return the model's name for documents: that of the folder, after `cosmos-batch/` for models of this project."""
    return f"{_OWN_ORGANIZATION}/{folder.name}" if folder.parent.name == _OWN_ORGANIZATION else folder.name


def is_checkpoint(folder: Path) -> bool:
    """Return whether the folder has one of the files that every checkpoint has."""
    return any((folder / name).is_file() for name in _ROOTS)


def _digest(folder: Path, files: list[Path]) -> str:
    """Return a digest of names, sizes and contents (for weights: times of change), to be used like a commit."""
    state = hashlib.sha256()
    for path in files:
        stat = path.stat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.st_size <= _SMALL else str(stat.st_mtime_ns)
        state.update(f"{path.relative_to(folder)}\0{stat.st_size}\0{content}\0".encode(errors="surrogateescape"))
    return state.hexdigest()[:_DIGEST_DIGITS]


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())
