"""The copies of one model on the shared file system: `<commit>/` with a manifest inside is one, all else is not."""

import logging
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cosmos_batch.store.lock import exclusive
from cosmos_batch.store.manifest import MANIFEST, IncompleteCopyError, ModelManifest
from cosmos_batch.store.model_ids import directory_name

logger = logging.getLogger(__name__)

_PARTIAL = ".partial-"
_WITHDRAWN = ".withdrawn-"


@dataclass(frozen=True)
class StoredModel:
    """A model that can be loaded.

    Attributes:
        model: Hugging Face id, or the name of a checkpoint folder that is used in place.
        commit: Git commit on the Hub, or a digest of the folder.
        path: Directory with all of the model's files.
        published_at: When this copy came from the Hub; for a folder, when it last changed (UTC).
    """

    model: str
    commit: str
    path: Path
    published_at: datetime


class Copies:
    """The copies of `model` below `root`. Reading needs no lock; whatever changes them is called inside `changing`.

    Raises:
        Failure: `ModelUnavailable` if `model` is not an id of the Hub.
    """

    def __init__(self, root: Path, model: str) -> None:
        self._model = model
        self._directory = root / directory_name(model)

    def newest(self) -> StoredModel | None:
        """The copy that was published last; None if there is none, or if its files lack bytes.

        An older copy does not take the place of a damaged one: it would be another revision of the model.
        """
        return self.whole(None)

    def whole(self, commit: str | None) -> StoredModel | None:
        """The copy of a commit, or the one that was published last; None if it is not there or its files lack bytes."""
        manifest = self.manifest(commit) if commit else self.newest_manifest()
        if manifest is None:
            return None
        stored = _stored(manifest, self._directory / manifest.commit)
        try:
            manifest.verify(stored.path)
        except IncompleteCopyError as error:
            logger.warning("the copy of %s at %s is damaged: %s", stored.model, stored.commit, error)
            return None
        return stored

    def newest_manifest(self) -> ModelManifest | None:
        """The manifest that was published last, even if its files are damaged; None if there is none."""
        return max(self._published(), key=lambda manifest: manifest.published_at, default=None)

    def manifest(self, commit: str) -> ModelManifest | None:
        """The manifest of one copy; None if there is no such copy."""
        try:
            text = (self._directory / commit / MANIFEST).read_bytes()
        except FileNotFoundError:
            return None
        return ModelManifest.read(text, self._model, commit)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the model's lock, and remove what does not count.

        At entry that is what dead workers left, at exit what this one withdrew or gave up.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        with exclusive(self._directory / ".lock"):
            self._sweep()
            try:
                yield
            finally:
                self._sweep()

    def new_partial(self) -> Path:
        """An empty directory to fill, on the file system of the copies."""
        path = self._directory / f"{_PARTIAL}{uuid.uuid4().hex}"
        path.mkdir()
        return path

    def publish(self, partial: Path, manifest: ModelManifest) -> StoredModel:
        """Make a filled directory a copy, in one step."""
        target = self._directory / manifest.commit
        if target.exists():
            # It does not count (its manifest is gone or spoilt, or its files are damaged), but it is in the way.
            self._withdraw(target)
        manifest.write(partial)
        partial.rename(target)
        logger.info("published %s at %s from %s", manifest.model, manifest.commit, manifest.source)
        return _stored(manifest, target)

    def withdraw_until(self, moment: datetime) -> None:
        """Let the copies published at or before `moment` count no longer.

        A rename, under which readers on every host go on undisturbed; the sweep at the end deletes them.
        """
        for manifest in self._published():
            if manifest.published_at <= moment:
                self._withdraw(self._directory / manifest.commit)

    def _published(self) -> list[ModelManifest]:
        commits = [path.parent.name for path in self._directory.glob(f"[!.]*/{MANIFEST}")]
        return [manifest for commit in commits if (manifest := self.manifest(commit))]

    def _withdraw(self, path: Path) -> None:
        path.rename(self._directory / f"{_WITHDRAWN}{uuid.uuid4().hex}")

    def _sweep(self) -> None:
        for path in [*self._directory.glob(f"{_PARTIAL}*"), *self._directory.glob(f"{_WITHDRAWN}*")]:
            logger.info("removing %s", path)
            # On NFS a file that this host has open stays as .nfs..., and its directory until the next sweep.
            shutil.rmtree(path, ignore_errors=True)


def _stored(manifest: ModelManifest, path: Path) -> StoredModel:
    return StoredModel(manifest.model, manifest.commit, path, manifest.published_at)
