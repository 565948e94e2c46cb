"""A checkpoint that already lies in the worker's file system: baked into the image, mounted, or a person's own."""

import hashlib
from datetime import UTC, datetime
from pathlib import Path

from cosmos_batch.contract.error import Failure
from cosmos_batch.store.copies import StoredModel

# Files up to this many bytes are digested by content; weights by size and time of change, since reading them all
# again at every start would cost more than it tells.
_SMALL = 1 << 20
_DIGEST_DIGITS = 40
# A folder below one of this name is a model that this project made, and goes by both names, as on the Hub.
_OWN_ORGANIZATION = "cosmos-batch"
# One of them stands in the root of every checkpoint: a model's, or that of Diffusers' pipelines.
_ROOTS = ("config.json", "model_index.json")


def open_checkpoint_folder(folder: Path) -> StoredModel:
    """The checkpoint in `folder`, used where it is: not copied, not backed up, not invalidated.

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
    return StoredModel(name_of(folder), _digest(folder, files), folder, changed_at)


def name_of(folder: Path) -> str:
    """The name of a folder's model in documents: the folder's own, with `cosmos-batch/` before it for one of ours."""
    return f"{_OWN_ORGANIZATION}/{folder.name}" if folder.parent.name == _OWN_ORGANIZATION else folder.name


def is_checkpoint(folder: Path) -> bool:
    """Whether a folder says that it is one."""
    return any((folder / name).is_file() for name in _ROOTS)


def _digest(folder: Path, files: list[Path]) -> str:
    """Stands in the place of a commit: equal if names, sizes, and contents (of weights: times) are equal."""
    state = hashlib.sha256()
    for path in files:
        stat = path.stat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.st_size <= _SMALL else str(stat.st_mtime_ns)
        state.update(f"{path.relative_to(folder)}\0{stat.st_size}\0{content}\0".encode(errors="surrogateescape"))
    return state.hexdigest()[:_DIGEST_DIGITS]


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())
