"""The manifest: the list of a model's files. A directory or a prefix in S3 without one is no copy of a model."""

import hashlib
import logging
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, ValidationError

from cosmos_batch.contract.base import Model, Time
from cosmos_batch.contract.error import explain

logger = logging.getLogger(__name__)

MANIFEST = "manifest.json"
_HASHING_THREADS = 4  # hashlib computes outside of Python's global lock


class IncompleteCopyError(Exception):
    """Files of a copy are missing, or have another size or another hash than the manifest says."""


def _inside(name: str) -> str:
    path = PurePosixPath(name)
    if not name or "\0" in name or path.is_absolute() or ".." in path.parts or str(path) != name or name == ".":
        raise ValueError("must be a path inside the model's directory")
    if name == MANIFEST:
        raise ValueError("is reserved for the store's own manifest")
    return name


FileName = Annotated[str, AfterValidator(_inside)]
Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]


class ModelFile(Model):
    """A file of a model, as the manifest lists it."""

    name: FileName = Field(description="Path relative to the model's directory, with `/`")
    size: int = Field(ge=0, description="Bytes")
    sha256: str | None = Field(
        default=None, description="Hex digest; absent for small files in manifests of older versions"
    )


class Revision(Model):
    """The files of a model at one commit."""

    commit: Commit = Field(description="Git commit on the Hub")
    files: tuple[ModelFile, ...] = Field(min_length=1)

    @property
    def size(self) -> int:
        """Return the bytes of all files together."""
        return sum(file.size for file in self.files)

    def verify(self, directory: Path) -> None:
        """Compare the sizes of the files in `directory` with the list. It reads no file, so every start does it.

        Raises:
            IncompleteCopyError: Names the first few files that differ.
        """
        incomplete = [file.name for file in self.files if _size(directory / file.name) != file.size]
        if incomplete:
            raise IncompleteCopyError(
                f"{len(incomplete)} of {len(self.files)} files are missing or cut short: {', '.join(incomplete[:3])}"
            )

    def hashed(self, directory: Path) -> Self:
        """Return the same files with the hashes of the files in `directory`. It reads every byte, four files at once.

        Raises:
            IncompleteCopyError: Names the first file that has another hash than the list says.
        """
        with ThreadPoolExecutor(_HASHING_THREADS, "hash") as threads:
            digests = list(threads.map(lambda file: _sha256(directory / file.name), self.files))
        for file, digest in zip(self.files, digests, strict=True):
            if file.sha256 not in (None, digest):
                raise IncompleteCopyError(f"{file.name} has other bytes than its SHA-256 says")
        files = tuple(
            file.model_copy(update={"sha256": digest}) for file, digest in zip(self.files, digests, strict=True)
        )
        return self.model_copy(update={"files": files})


class ModelManifest(Revision):
    """A published revision. It is written after all files, so its presence means that the copy is complete."""

    model: str = Field(description="Hugging Face id")
    published_at: Time = Field(
        description="When it was downloaded from the Hub (UTC); a restored copy has the time of its backup"
    )
    source: Literal["huggingface", "backup"] = Field(description="Where the files of this copy came from")

    @classmethod
    def downloaded(cls, model: str, revision: Revision) -> Self:
        """Return the manifest of a download that has ended now."""
        return cls(
            model=model,
            commit=revision.commit,
            files=revision.files,
            published_at=datetime.now(UTC),
            source="huggingface",
        )

    @classmethod
    def read(cls, text: bytes, model: str, commit: str) -> Self | None:
        """Parse the manifest of `commit` of `model`; None, with a warning, if it is invalid or another model's."""
        try:
            manifest = cls.model_validate_json(text)
        except ValidationError as error:
            logger.warning("the manifest of %s at %s does not count: %s", model, commit, explain(error))
            return None
        if (manifest.model, manifest.commit) != (model, commit):
            logger.warning("the manifest of %s at %s does not count: it is another model's", model, commit)
            return None
        return manifest

    def write(self, directory: Path) -> None:
        """Write the manifest into `directory` and flush it to stable storage."""
        with (directory / MANIFEST).open("w", encoding="utf-8") as file:
            file.write(self.model_dump_json(indent=2))
            file.flush()
            os.fsync(file.fileno())


def bytes_of(paths: Iterable[Path]) -> int:
    """Return the total size in bytes of those `paths` that are files; one that is deleted meanwhile counts 0."""
    return sum(_size(path) or 0 for path in paths)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size if path.is_file() else None
    except OSError:
        return None
