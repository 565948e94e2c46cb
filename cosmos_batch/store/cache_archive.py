"""Packs a folder of compiled code into a tar file. Its first member is a label: what the code was compiled for, and
how many files and bytes follow.
"""

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field, ValidationError

from cosmos_batch.contract.base import Model
from cosmos_batch.contract.error import explain

SIZE_LIMIT = 8 << 30
_FILES_LIMIT = 200_000
_LABEL, _LABEL_LIMIT = "label.json", 1 << 16
# Files with these endings change without anything being compiled, and are not needed.
_LEFT_OUT = {".lock", ".log"}

FileSizes = dict[str, int]
"""Sizes of files in bytes, by their paths relative to the folder."""


class UnusableArchiveError(Exception):
    """An archive is damaged, or was made for something else; the message says which."""


class _Label(Model):
    made_for: dict[str, str] = Field(description="What must be equal on the worker that uses it")
    files: int = Field(ge=0, le=_FILES_LIMIT)
    size: int = Field(ge=0, le=SIZE_LIMIT, description="Bytes of all files")


def list_files(folder: Path) -> FileSizes:
    """Return the files of a folder that belong into an archive: regular files only, as links could lead anywhere."""
    sizes = {}
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.suffix not in _LEFT_OUT:
            sizes[str(path.relative_to(folder))] = path.stat().st_size
    return sizes


def write_archive(folder: Path, made_for: Mapping[str, str], target: Path) -> FileSizes:
    """Write a folder's files into the archive `target`, uncompressed because the network is faster than compression.

    Raises:
        OSError: The disk failed, or a file was deleted meanwhile.
        UnusableArchiveError: The folder was changed meanwhile.
    """
    packed = list_files(folder)
    label = _Label(made_for=dict(made_for), files=len(packed), size=sum(packed.values())).model_dump_json().encode()
    with tarfile.open(target, "w") as archive:
        first = tarfile.TarInfo(_LABEL)
        first.size = len(label)
        archive.addfile(first, io.BytesIO(label))
        for name in packed:
            archive.add(folder / name, name, recursive=False)
    if list_files(folder) != packed:
        raise UnusableArchiveError("files changed while they were packed")
    return packed


def extract_archive(source: Path, made_for: Mapping[str, str], folder: Path) -> None:
    """Extract an archive into the empty `folder`. If it raises, the folder's contents must not be used.

    Raises:
        UnusableArchiveError: The archive is damaged or was made for something else.
        OSError: The disk failed.
    """
    try:
        with tarfile.open(source, "r:") as archive:
            label = _label_of(archive)
            if label.made_for != made_for:
                raise UnusableArchiveError(f"it was made for {label.made_for}")
            _extract(archive, label, folder)
    except (tarfile.TarError, EOFError) as error:
        raise UnusableArchiveError(f"{type(error).__name__}: {error}") from error


def _label_of(archive: tarfile.TarFile) -> _Label:
    first = archive.next()
    if first is None or first.name != _LABEL or not first.isreg() or first.size > _LABEL_LIMIT:
        raise UnusableArchiveError("it does not say what it was made for")
    file = archive.extractfile(first)
    assert file is not None, "it is a regular file"
    try:
        return _Label.model_validate_json(file.read())
    except ValidationError as error:
        raise UnusableArchiveError(explain(error)) from error


def _extract(archive: tarfile.TarFile, label: _Label, folder: Path) -> None:
    """Extract regular files only, and no more than the label says.

    tarfile's filter `data` refuses paths outside of the folder, and resets owners and special modes.
    """
    files = size = 0
    while (member := archive.next()) is not None:
        files, size = files + 1, size + member.size
        if not member.isreg() or files > label.files or size > label.size:
            raise UnusableArchiveError(f"{member.name} does not belong into it")
        archive.extract(member, folder, filter="data")
    if (files, size) != (label.files, label.size):
        raise UnusableArchiveError(f"{files} files of {label.files} are left of it")
