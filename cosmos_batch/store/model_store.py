"""The model store: decides which copy of a model is used, and fills the store from the backup or the Hub."""

import errno
import logging
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.model_name import MAIN
from cosmos_batch.store.backup import Backup
from cosmos_batch.store.checkpoint_folder import open_checkpoint_folder
from cosmos_batch.store.copies import Copies, StoredModel
from cosmos_batch.store.manifest import IncompleteCopyError, ModelManifest, Revision
from cosmos_batch.store.model_ids import is_folder
from cosmos_batch.store.progress import ByteProgress, report_progress, silent
from cosmos_batch.store.s3_retries import FAULTS

if TYPE_CHECKING:
    from botocore.client import BaseClient

logger = logging.getLogger(__name__)


class ModelStore:
    """Models on a file system that workers on many hosts share.

    A copy is a folder `<root>/<org>--<name>/<commit>/` with a manifest. It is written under another name and renamed
    once it is complete. So readers need no lock, and a worker that is killed at any moment leaves no incomplete copy.

    Args:
        root: The shared file system, for example where EFS is mounted.
        backup_bucket: S3 bucket of the backups.
        s3: boto3 client of S3.
        token: Returns the Hugging Face token, or None; called only before a download.
    """

    def __init__(self, root: Path, backup_bucket: str, s3: "BaseClient", token: Callable[[], str | None]) -> None:
        self._root = root
        self._bucket = backup_bucket
        self._backup = Backup(backup_bucket, s3)
        self._token = token

    def find(self, model: str) -> StoredModel | None:
        """Return the last published copy of `model` if it is complete, else None. It reads only the file system.

        Raises:
            Failure: `ModelUnavailable` if `model` is not a valid id, or a folder that is no checkpoint.
        """
        return open_checkpoint_folder(Path(model)) if is_folder(model) else Copies(self._root, model).newest()

    def resolve(self, model: str, revision: str) -> str:
        """Return the commit to use for a branch or tag for which no commit is recorded yet.

        For `main` that is the newest commit in the file system, else in the backup, else on the Hub. For others it is
        that of the Hub.

        Raises:
            Failure: `ModelUnavailable`.
        """
        if revision == MAIN:
            known = Copies(self._root, model).newest_manifest() or self._find_backup(model, None)
            if known is not None:
                return known.commit
        return self.latest(model, revision)

    def latest(self, model: str, revision: str) -> str:
        """Return the commit to which a branch or tag points on the Hub now, or the commit itself.

        Raises:
            Failure: `ModelUnavailable`, also if the Hub lists the model but refuses its files.
        """
        from cosmos_batch.store.huggingface import Hub

        return Hub(model, self._token()).check_access(revision).commit

    def ensure(
        self,
        model: str,
        newer_than: datetime | None = None,
        on_progress: ByteProgress = silent,
        commit: str | None = None,
        replaces: str | None = None,
    ) -> StoredModel:
        """Return the copy of `model` to load. If there is none, fill the store from the backup or the Hub.

        With a `commit`, copies and backups of other commits are not used. Without one, `main` is resolved on the Hub
        only if neither the store nor the backup has the model. A copy with incomplete files is replaced by the same
        commit, from the backup or the Hub. If the backup cannot be read, that is an error and the Hub is not used
        instead: its `main` may have moved, and this worker would load another model than its neighbors (decision 052).

        With `newer_than`, copies that were published up to then are dropped in S3 and here, **before** the new one is
        fetched: with a `commit` those of that commit and of the one that it `replaces`, because other pipelines may
        load other commits of the model (decision 065); without one, those of all commits.
        If the fetch fails there is no copy, and `ensure` fails for every worker until one fetch succeeds: who
        invalidates a copy declares it bad, and it must not be used again because the Hub is down. Workers that have its
        files open go on with them until the new copy is in place and the old files are deleted. After that NFS keeps
        them readable on the host that deleted them; a worker on another host that is still loading gets ESTALE, fails,
        and is started again.

        Args:
            model: Hugging Face id (`org/name`), or the absolute path of a checkpoint folder, which is used in place.
            newer_than: Time with a zone; None accepts every copy.
            on_progress: Called with the bytes done and in all while a copy is filled, also from another thread.
            commit: The commit to load; a worker knows it from the configuration or the state table.
            replaces: The commit that no pipeline loads any more, now that `commit` has been recorded instead.

        Raises:
            Failure: `ModelUnavailable`; `retryable` if the cause may pass by itself.
        """
        if is_folder(model):
            return open_checkpoint_folder(Path(model))
        copies = Copies(self._root, model)
        if stored := _acceptable(copies.whole(commit), newer_than):
            return stored
        with self._disk_explained(), copies.changing():
            # Another worker may have filled the store while this one waited for the lock.
            stored = _acceptable(copies.whole(commit), newer_than)
            if stored:
                return stored
            if newer_than is not None:
                self._drop(model, copies, newer_than, None if commit is None else {commit, replaces or commit})
            return self._fill(model, commit, copies, on_progress)

    def back_up(self, stored: StoredModel) -> bool:
        """Copy `stored` to S3, unless its commit has a complete backup or it is a checkpoint folder.

        It takes the model's lock: an invalidation must not finish while the old copy is being uploaded.

        Returns:
            True if it uploaded.

        Raises:
            One of `store.s3_retries.FAULTS`: S3 failed or refused. The model can be used all the same.
            IncompleteCopyError: Files of the copy are incomplete.
        """
        if not stored.path.is_relative_to(self._root):  # a folder used in place
            return False
        copies = Copies(self._root, stored.model)
        with copies.changing():
            manifest = copies.manifest(stored.commit)
            # Without a manifest, the copy was invalidated meanwhile.
            if manifest is None or self._backup.manifest(stored.model, stored.commit) is not None:
                return False
            manifest.verify(stored.path)
            self._backup.upload(stored.path, manifest)
        logger.info("backed up %s at %s", stored.model, stored.commit)
        return True

    def _fill(self, model: str, commit: str | None, copies: Copies, on_progress: ByteProgress) -> StoredModel:
        damaged = copies.manifest(commit) if commit else copies.newest_manifest()
        backup = self._find_backup(model, damaged.commit if damaged else commit)
        restored = self._restore(backup, copies, on_progress) if backup else None
        return restored or self._download(model, commit or MAIN, backup or damaged, copies, on_progress)

    def _drop(self, model: str, copies: Copies, moment: datetime, commits: Collection[str] | None) -> None:
        """Drop the backups and copies published up to `moment`: those of these commits, or all without `commits`."""
        described = "all commits" if commits is None else ", ".join(sorted(commits))
        logger.info("dropping the copies of %s at %s from before %s", model, described, moment.isoformat())
        try:
            self._backup.drop_until(model, moment, commits)
        except FAULTS as error:
            # Going on would leave a backup from which the next empty file system would be filled.
            raise self._backup_failure(model, "dropped", error) from error
        copies.withdraw_until(moment, commits)

    def _find_backup(self, model: str, commit: str | None) -> ModelManifest | None:
        """Return the manifest of a commit's backup, or for None that of the newest backup; None if there is none."""
        try:
            return self._backup.manifest(model, commit) if commit else self._backup.newest(model)
        except FAULTS as error:
            raise self._backup_failure(model, "read", error) from error

    def _backup_failure(self, model: str, done: str, error: Exception) -> Failure:
        return Failure(
            "ModelUnavailable",
            f"The backup of {model} in s3://{self._bucket} could not be {done}: {type(error).__name__}: {error}",
            "Try again later; if it persists, check that the bucket exists, that the worker's role may use it, and "
            "that the workers' network reaches S3.",
            retryable=True,
        )

    def _restore(self, manifest: ModelManifest, copies: Copies, on_progress: ByteProgress) -> StoredModel | None:
        """Return the restored copy; None if the backup is damaged, and was dropped."""
        logger.info("restoring %s at %s from the backup, %d bytes", manifest.model, manifest.commit, manifest.size)
        self._require_large_disk(manifest.model, manifest.size)
        partial = copies.new_partial()
        try:
            with report_progress(partial, manifest.size, on_progress):
                self._backup.restore(manifest, partial)
        except IncompleteCopyError as error:
            # If it were not dropped, the next `back_up` would take it for a complete backup.
            logger.warning("the backup of %s at %s is damaged: %s", manifest.model, manifest.commit, error)
            self._drop_damaged(manifest)
            return None
        except FAULTS as error:
            raise self._backup_failure(manifest.model, "restored", error) from error
        return copies.publish(partial, manifest.model_copy(update={"source": "backup"}))

    def _drop_damaged(self, manifest: ModelManifest) -> None:
        try:
            self._backup.drop(manifest.model, manifest.commit)
        except FAULTS as error:
            raise self._backup_failure(manifest.model, "dropped, though it is damaged,", error) from error

    def _download(
        self, model: str, wanted: str, known: Revision | None, copies: Copies, on_progress: ByteProgress
    ) -> StoredModel:
        """Fetch the `known` revision from the Hub, or the commit to which `wanted` points now."""
        # Imported here: it takes half a second, and most workers have their model in the store.
        from cosmos_batch.store.huggingface import Hub

        hub = Hub(model, self._token())
        revision = Revision(commit=known.commit, files=known.files) if known else hub.resolve(wanted)
        logger.info("downloading %s at %s, %d bytes", model, revision.commit, revision.size)
        self._require_large_disk(model, revision.size)
        partial = copies.new_partial()
        with report_progress(partial, revision.size, on_progress):
            revision = hub.download(revision, partial)
        return copies.publish(partial, ModelManifest.downloaded(model, revision))

    def _require_large_disk(self, model: str, size: int) -> None:
        """Raise Failure if the model is larger than the whole file system, so that no free space would be enough.

        A file system that reports no size at all is trusted.
        """
        total = shutil.disk_usage(self._root).total
        if 0 < total < size:
            raise Failure(
                "ModelUnavailable",
                f"The disk of the model store is too small: {model} has {size / 1e9:.1f} GB, and the whole file "
                f"system at {self._root} {total / 1e9:.1f} GB.",
                "Give the store a larger file system.",
            )

    @contextmanager
    def _disk_explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise Failure(
                    "ModelUnavailable",
                    f"The model store at {self._root} failed: {error}",
                    "Try again; if it persists, check the file system: of EFS its mount, of a disk its health.",
                    retryable=True,
                ) from error
            free = shutil.disk_usage(self._root).free
            raise Failure(
                "ModelUnavailable",
                f"The disk of the model store is full: {free} bytes are left at {self._root}.",
                "Free space there, or give the store a larger file system; the next try may also be on another host.",
                retryable=True,
            ) from error


def _acceptable(stored: StoredModel | None, newer_than: datetime | None) -> StoredModel | None:
    if stored is None or newer_than is None or stored.published_at > newer_than:
        return stored
    return None
