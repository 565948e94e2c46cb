"""The copies of one model on the shared file system. A folder `<commit>/` is complete once it has a manifest."""

import logging
import shutil
import uuid
from collections.abc import Collection, Iterator
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
    """The copies of `model` below `root`. Reads need no lock; methods that change copies are called inside `changing`.

    Raises:
        Failure: `ModelUnavailable` if `model` is not an id of the Hub.
    """

    def __init__(self, root: Path, model: str) -> None:
        self._model = model
        self._directory = root / directory_name(model)

    def newest(self) -> StoredModel | None:
        """Return the copy that was published last; None if there is none, or if files of it are incomplete.

        A damaged copy is not replaced by an older one, which would be another revision of the model.
        """
        return self.whole(None)

    def whole(self, commit: str | None) -> StoredModel | None:
        """Return a commit's copy, or for None the last published one; None if that copy is missing or incomplete."""
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
        """Return the manifest that was published last, even if its files are damaged; None if there is none."""
        return max(self._published(), key=lambda manifest: manifest.published_at, default=None)

    def manifest(self, commit: str) -> ModelManifest | None:
        """Return the manifest of one copy; None if there is no such copy."""
        try:
            text = (self._directory / commit / MANIFEST).read_bytes()
        except FileNotFoundError:
            return None
        return ModelManifest.read(text, self._model, commit)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the model's lock, and delete folders that are no copies.

        On entry these are leftovers of killed workers, on exit what this worker has withdrawn or left incomplete.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        with exclusive(self._directory / ".lock"):
            self._sweep()
            try:
                yield
            finally:
                self._sweep()

    def new_partial(self) -> Path:
        """Create an empty directory to fill, on the same file system as the copies."""
        path = self._directory / f"{_PARTIAL}{uuid.uuid4().hex}"
        path.mkdir()
        return path

    def publish(self, partial: Path, manifest: ModelManifest) -> StoredModel:
        """Turn a filled directory into a copy, in one step."""
        target = self._directory / manifest.commit
        if target.exists():
            # It is no valid copy (its manifest is missing or invalid, or its files are damaged), but it takes the name.
            self._withdraw(target)
        manifest.write(partial)
        partial.rename(target)
        logger.info("published %s at %s from %s", manifest.model, manifest.commit, manifest.source)
        return _stored(manifest, target)

    def withdraw_until(self, moment: datetime, commits: Collection[str] | None = None) -> None:
        """Withdraw the copies that were published at or before `moment`, by renaming them; with `commits`, only those.

        Processes that have their files open go on reading. The sweep at the end of `changing` deletes them.
        """
        for manifest in self._published():
            if manifest.published_at <= moment and (commits is None or manifest.commit in commits):
                self._withdraw(self._directory / manifest.commit)

    def _published(self) -> list[ModelManifest]:
        commits = [path.parent.name for path in self._directory.glob(f"[!.]*/{MANIFEST}")]
        return [manifest for commit in commits if (manifest := self.manifest(commit))]

    def _withdraw(self, path: Path) -> None:
        path.rename(self._directory / f"{_WITHDRAWN}{uuid.uuid4().hex}")

    def _sweep(self) -> None:
        for path in [*self._directory.glob(f"{_PARTIAL}*"), *self._directory.glob(f"{_WITHDRAWN}*")]:
            logger.info("removing %s", path)
            # NFS keeps a file that this host has open as .nfs..., so its directory stays until the next sweep.
            shutil.rmtree(path, ignore_errors=True)


def _stored(manifest: ModelManifest, path: Path) -> StoredModel:
    return StoredModel(manifest.model, manifest.commit, path, manifest.published_at)
