"""The store itself: which copy of a model is used, and how a new one comes to be."""

import errno
import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from cosmos_batch.contract import Failure
from cosmos_batch.store import folder
from cosmos_batch.store.backup import Backup
from cosmos_batch.store.copies import Copies, StoredModel
from cosmos_batch.store.manifest import IncompleteCopyError, Manifest
from cosmos_batch.store.names import is_folder
from cosmos_batch.store.progress import Progress, silent, watch

if TYPE_CHECKING:
    from botocore.client import BaseClient

logger = logging.getLogger(__name__)


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
        return folder.in_place(Path(model)) if is_folder(model) else Copies(self._root, model).newest()

    def ensure(self, model: str, newer_than: datetime | None = None, on_progress: Progress = silent) -> StoredModel:
        """The copy of `model` to load; fills the store from the backup or the Hub if there is none.

        With `newer_than`, copies published up to then do not count: they are dropped, in S3 and here, **before** the
        new one is fetched. If that fetch fails there is no copy, and `ensure` fails for everyone until one succeeds:
        whoever invalidates says that the old copy is bad, and an outage of the Hub must not bring it back. Workers that
        have its files open go on with them until the new copy is in place and the old files are deleted. After that NFS
        keeps them readable on the host that deleted them; a worker elsewhere that is still loading gets ESTALE, fails,
        and is started again.

        Args:
            model: Hugging Face id (`org/name`), or the absolute path of a checkpoint folder, which is used in place.
            newer_than: Time with a zone; None accepts every copy.
            on_progress: Called with bytes done and in all while a copy is filled, also from another thread.

        Raises:
            Failure: `ModelUnavailable`, with the remedy; `retryable` if it may pass by itself.
        """
        if is_folder(model):
            return folder.in_place(Path(model))
        copies = Copies(self._root, model)
        if stored := _acceptable(copies.newest(), newer_than):
            return stored
        with self._disk_full_explained(), copies.changing():
            # Whoever had the lock before may have done it.
            return _acceptable(copies.newest(), newer_than) or self._fill(model, copies, newer_than, on_progress)

    def back_up(self, stored: StoredModel) -> bool:
        """Copy `stored` to S3, unless there is a complete backup of its commit or it is a folder used in place.

        Takes the model's lock: an invalidation must not finish while an upload of the old copy is on its way.

        Returns:
            True if it uploaded.

        Raises:
            botocore.exceptions.ClientError, boto3.exceptions.S3UploadFailedError: What S3 says. The model can be used
                all the same.
        """
        # Only an id of the Hub has a slash; a folder goes by its name.
        if "/" not in stored.model:
            return False
        copies = Copies(self._root, stored.model)
        with copies.changing():
            manifest = copies.manifest(stored.commit)
            # No manifest: it was invalidated meanwhile.
            if manifest is None or self._backup.holds(stored.model, stored.commit):
                return False
            self._backup.upload(stored.path, manifest)
        logger.info("backed up %s at %s", stored.model, stored.commit)
        return True

    def _fill(self, model: str, copies: Copies, newer_than: datetime | None, on_progress: Progress) -> StoredModel:
        if newer_than is not None:
            logger.info("dropping the copies of %s from before %s", model, newer_than.isoformat())
            self._drop_backups(model, newer_than)
            copies.withdraw_until(newer_than)
        return self._restore(model, copies, on_progress) or self._download(model, copies, on_progress)

    def _drop_backups(self, model: str, moment: datetime) -> None:
        try:
            self._backup.drop_until(model, moment)
        except (ClientError, BotoCoreError) as error:
            # Going on would leave a backup behind that the next empty file system is filled from.
            raise Failure(
                "ModelUnavailable",
                f"The S3 backup of {model} could not be dropped: {error}",
                "Try again; if it persists, check the worker's access to the model bucket.",
                retryable=True,
            ) from error

    def _restore(self, model: str, copies: Copies, on_progress: Progress) -> StoredModel | None:
        try:
            manifest = self._backup.newest(model)
            return self._restore_from(manifest, copies, on_progress) if manifest else None
        except (ClientError, BotoCoreError) as error:
            logger.warning("the backup of %s cannot be read, so the Hub is asked: %s", model, error)
            return None

    def _restore_from(self, manifest: Manifest, copies: Copies, on_progress: Progress) -> StoredModel | None:
        logger.info("restoring %s at %s from the backup, %d bytes", manifest.model, manifest.commit, manifest.size)
        partial = copies.new_partial()
        try:
            with watch(partial, manifest.size, on_progress):
                self._backup.restore(manifest, partial)
        except IncompleteCopyError as error:
            # Dropped, or the next `back_up` would take it for a backup.
            logger.warning("the backup of %s at %s is damaged: %s", manifest.model, manifest.commit, error)
            self._backup.drop(manifest.model, manifest.commit)
            return None
        return copies.publish(partial, manifest.model_copy(update={"source": "backup"}))

    def _download(self, model: str, copies: Copies, on_progress: Progress) -> StoredModel:
        # Imported here: it takes half a second, and most workers find their model in the store.
        from cosmos_batch.store.huggingface import Hub

        hub = Hub(model, self._token())
        revision = hub.resolve()
        logger.info("downloading %s at %s, %d bytes", model, revision.commit, revision.size)
        partial = copies.new_partial()
        with watch(partial, revision.size, on_progress):
            hub.download(revision, partial)
        return copies.publish(partial, Manifest.downloaded(model, revision))

    @contextmanager
    def _disk_full_explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            free = shutil.disk_usage(self._root).free
            raise Failure(
                "ModelUnavailable",
                f"The disk of the model store is full: {free} bytes are left at {self._root}.",
                "Free space there, or give the store a larger file system; then run again.",
            ) from error


def _acceptable(stored: StoredModel | None, newer_than: datetime | None) -> StoredModel | None:
    if stored is None or newer_than is None or stored.published_at > newer_than:
        return stored
    return None
