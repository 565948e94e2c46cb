"""The store itself: which copy of a model is used, and how a new one comes to be."""

import errno
import logging
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from cosmos_batch.contract import Failure
from cosmos_batch.store import folder
from cosmos_batch.store.backup import Backup
from cosmos_batch.store.lock import exclusive
from cosmos_batch.store.manifest import MANIFEST, Incomplete, Manifest
from cosmos_batch.store.names import directory_name, is_folder
from cosmos_batch.store.progress import Progress, watch

if TYPE_CHECKING:
    from botocore.client import BaseClient

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


class ModelStore:
    """Models on a file system that workers on many hosts share.

    A copy is `<root>/<org>--<name>/<commit>/` with a manifest inside. It is written beside its place and renamed once
    complete, so a reader needs no lock, and a worker killed at any moment leaves nothing that counts as a model.

    Args:
        root: The shared file system, for example where EFS is mounted.
        backup_bucket: S3 bucket of the backups.
        s3: boto3 client of S3.
        token: Gives the Hugging Face token, or None; called only when a download needs it.
    """

    def __init__(self, root: Path, backup_bucket: str, s3: "BaseClient", token: Callable[[], str | None]) -> None:
        self._root = root
        self._backup = Backup(backup_bucket, s3)
        self._token = token

    def find(self, model: str) -> StoredModel | None:
        """The copy of `model` published last; looks at the file system only.

        Raises:
            Failure: `ModelUnavailable` if `model` is no model's name, or a folder that is no checkpoint.
        """
        if is_folder(model):
            return _in_place(Path(model))
        return max(self._published(model), key=lambda stored: stored.published_at, default=None)

    def ensure(
        self, model: str, newer_than: datetime | None = None, on_progress: Progress = lambda done, total: None
    ) -> StoredModel:
        """The copy of `model` to load; fills the store from the backup or the Hub if there is none.

        With `newer_than`, copies published up to then do not count: they are dropped, in S3 and here, **before** the new
        one is fetched. If that fetch fails there is no copy, and `ensure` fails for everyone until one succeeds: whoever
        invalidates says that the old copy is bad, and an outage of the Hub must not bring it back. Dropping here is a
        rename, under which a worker that has the files open goes on undisturbed; they are deleted once the new copy is
        in place. A worker on another host that still reads them then gets ESTALE, fails to load, and is started again.

        Args:
            model: Hugging Face id (`org/name`), or the absolute path of a checkpoint folder, which is used in place.
            newer_than: Time with a zone; None accepts every copy.
            on_progress: Called with bytes done and in all while a copy is filled, also from another thread.

        Raises:
            Failure: `ModelUnavailable`, with the remedy; `retryable` if it may pass by itself.
        """
        stored = self._newer(model, newer_than)
        if stored:
            return stored
        directory = self._directory(model)
        directory.mkdir(parents=True, exist_ok=True)
        with exclusive(directory / ".lock"), _swept(directory), _disk_full_explained(directory):
            # Whoever had the lock before may have done it.
            return self._newer(model, newer_than) or self._fill(model, newer_than, on_progress)

    def back_up(self, stored: StoredModel) -> bool:
        """Copy `stored` to S3, unless there is a complete backup of its commit or it is a folder used in place.

        Takes the model's lock, so that an invalidation cannot pass it by and find its backup afterwards.

        Returns:
            True if it uploaded.

        Raises:
            botocore.exceptions.ClientError, boto3.exceptions.S3UploadFailedError: what S3 says. The model can be used all
                the same.
        """
        if stored.path.parent.parent != self._root:
            return False
        with exclusive(stored.path.parent / ".lock"):
            manifest = _manifest(stored.path, stored.model)
            # No manifest: it was invalidated meanwhile.
            if manifest is None or self._backup.holds(manifest):
                return False
            self._backup.upload(stored.path, manifest)
        logger.info("backed up %s at %s", stored.model, stored.commit)
        return True

    def _newer(self, model: str, newer_than: datetime | None) -> StoredModel | None:
        stored = self.find(model)
        acceptable = stored and (is_folder(model) or newer_than is None or stored.published_at > newer_than)
        return stored if acceptable else None

    def _fill(self, model: str, newer_than: datetime | None, on_progress: Progress) -> StoredModel:
        if newer_than is not None:
            self._drop_until(model, newer_than)
        return self._restore(model, on_progress) or self._download(model, on_progress)

    def _drop_until(self, model: str, moment: datetime) -> None:
        logger.info("dropping the copies of %s from before %s", model, moment.isoformat())
        try:
            self._backup.drop_until(model, moment)
        except (ClientError, BotoCoreError) as error:
            raise Failure(
                "ModelUnavailable",
                f"The S3 backup of {model} could not be dropped: {error}",
                "Try again; if it persists, check the worker's access to the model bucket.",
                retryable=True,
            ) from error
        for stored in self._published(model):
            if stored.published_at <= moment:
                _withdraw(stored.path)

    def _restore(self, model: str, on_progress: Progress) -> StoredModel | None:
        try:
            manifest = self._backup.newest(model)
            return self._restore_from(manifest, on_progress) if manifest else None
        except (ClientError, BotoCoreError) as error:
            logger.warning("the backup of %s cannot be read, so the Hub is asked: %s", model, error)
            return None

    def _restore_from(self, manifest: Manifest, on_progress: Progress) -> StoredModel | None:
        logger.info("restoring %s at %s from the backup, %d bytes", manifest.model, manifest.commit, manifest.size)
        partial = self._partial(manifest.model)
        try:
            with watch(partial, manifest.size, on_progress):
                self._backup.restore(manifest, partial)
        except Incomplete as error:
            # Dropped, or the next `back_up` would take it for a backup.
            logger.warning("the backup of %s at %s is damaged: %s", manifest.model, manifest.commit, error)
            self._backup.drop(manifest.model, manifest.commit)
            return None
        return self._publish(partial, manifest.model_copy(update={"source": "backup"}))

    def _download(self, model: str, on_progress: Progress) -> StoredModel:
        # Imported here: it takes half a second, and most workers find their model in the store.
        from cosmos_batch.store.huggingface import Hub

        hub = Hub(model, self._token())
        revision = hub.resolve()
        logger.info("downloading %s at %s, %d bytes", model, revision.commit, revision.size)
        partial = self._partial(model)
        with watch(partial, revision.size, on_progress):
            hub.download(revision, partial)
        manifest = Manifest(
            model=model,
            commit=revision.commit,
            files=revision.files,
            published_at=datetime.now(UTC),
            source="huggingface",
        )
        return self._publish(partial, manifest)

    def _publish(self, partial: Path, manifest: Manifest) -> StoredModel:
        target = self._directory(manifest.model) / manifest.commit
        if target.exists():
            # It does not count (its manifest is gone or spoilt), but it is in the way.
            _withdraw(target)
        manifest.write(partial)
        os.rename(partial, target)
        logger.info("published %s at %s from %s", manifest.model, manifest.commit, manifest.source)
        return _stored(manifest, target)

    def _published(self, model: str) -> list[StoredModel]:
        paths = self._directory(model).glob(f"*/{MANIFEST}")
        candidates = [path.parent for path in paths if not path.parent.name.startswith(".")]
        return [_stored(manifest, path) for path in candidates if (manifest := _manifest(path, model))]

    def _partial(self, model: str) -> Path:
        path = self._directory(model) / f"{_PARTIAL}{uuid.uuid4().hex}"
        path.mkdir()
        return path

    def _directory(self, model: str) -> Path:
        return self._root / directory_name(model)


def _in_place(path: Path) -> StoredModel:
    folder.check(path)
    return StoredModel(path.name, folder.digest(path), path, folder.changed_at(path))


def _stored(manifest: Manifest, path: Path) -> StoredModel:
    return StoredModel(manifest.model, manifest.commit, path, manifest.published_at)


def _manifest(path: Path, model: str) -> Manifest | None:
    try:
        text = (path / MANIFEST).read_bytes()
    except FileNotFoundError:
        return None
    return Manifest.read(text, model, path.name)


def _withdraw(path: Path) -> None:
    os.rename(path, path.with_name(f"{_WITHDRAWN}{uuid.uuid4().hex}"))


@contextmanager
def _swept(directory: Path) -> Iterator[None]:
    """Remove what does not count: at entry what dead workers left, at exit what this one withdrew or gave up."""
    _sweep(directory)
    try:
        yield
    finally:
        _sweep(directory)


def _sweep(directory: Path) -> None:
    for path in [*directory.glob(f"{_PARTIAL}*"), *directory.glob(f"{_WITHDRAWN}*")]:
        logger.info("removing %s", path)
        # On NFS a file that this host has open stays as .nfs..., and its directory until the next sweep.
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _disk_full_explained(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        free = shutil.disk_usage(directory).free
        raise Failure(
            "ModelUnavailable",
            f"The disk of the model store is full: {directory} has {free} bytes left.",
            "Free space there, or give the store a larger file system; then run again.",
        ) from error
