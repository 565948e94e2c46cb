"""The backup of models in S3, at `models/<org>--<name>/<commit>/<file>`. A manifest is uploaded last."""

import logging
from collections.abc import Collection
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from cosmos_batch.store.manifest import MANIFEST, ModelManifest
from cosmos_batch.store.model_ids import directory_name
from cosmos_batch.store.parallel_restore import BackupLocation, restore_files
from cosmos_batch.store.progress import ByteProgress, counter, silent
from cosmos_batch.store.s3_retries import RetryBudget

if TYPE_CHECKING:
    from botocore.client import BaseClient

logger = logging.getLogger(__name__)

_MISSING = {"404", "NoSuchKey"}


class Backup:
    """The backups of all models in one bucket. Every method may raise one of `FAULTS`.

    Requests are repeated for as long as a `RetryBudget` allows. Callers that write or drop hold the model's lock.

    The role needs `s3:ListBucket` on the bucket, and `s3:GetObject`, `s3:PutObject` and `s3:DeleteObject` on
    `models/*`. A killed upload leaves parts of a multipart upload, which the bucket's lifecycle rule deletes.
    """

    def __init__(self, bucket: str, s3: "BaseClient") -> None:
        self._bucket = bucket
        self._s3 = s3

    def newest(self, model: str) -> ModelManifest | None:
        """Return the manifest of the complete backup that was published last, or None."""
        complete = [manifest for commit in self._commits(model) if (manifest := self.manifest(model, commit))]
        return max(complete, key=lambda manifest: manifest.published_at, default=None)

    def manifest(self, model: str, commit: str) -> ModelManifest | None:
        """Return the manifest of one commit's backup; None if there is no complete one."""
        key = _prefix(model, commit) + MANIFEST
        try:
            body = RetryBudget().call(lambda: self._read(key))
        except ClientError as error:
            if error.response["Error"]["Code"] in _MISSING:
                return None
            raise
        return ModelManifest.read(body, model, commit)

    def restore(self, manifest: ModelManifest, directory: Path) -> None:
        """Copy the files of a backup into the empty `directory`.

        Raises:
            IncompleteCopyError: Files are missing from the backup, or have another size or hash.
        """
        source = BackupLocation(self._s3, self._bucket, _prefix(manifest.model, manifest.commit))
        restore_files(source, manifest.files, directory)
        manifest.verify(directory)

    def upload(self, directory: Path, manifest: ModelManifest, on_progress: ByteProgress = silent) -> None:
        """Copy a published model to S3. The manifest comes last, so an incomplete backup has none."""
        prefix, retries, done = _prefix(manifest.model, manifest.commit), RetryBudget(), 0

        def upload(name: str) -> None:
            # A counter of its own: what an earlier try has sent does not count.
            count = counter(manifest.size, on_progress, done)
            self._s3.upload_file(str(directory / name), self._bucket, prefix + name, Callback=count)

        for file in manifest.files:
            retries.call(partial(upload, file.name))
            done += file.size
        body = manifest.model_dump_json(indent=2).encode()
        published = {"Key": prefix + MANIFEST, "Body": body, "ContentType": "application/json"}
        retries.call(lambda: self._s3.put_object(Bucket=self._bucket, **published))

    def drop(self, model: str, commit: str) -> None:
        """Delete one backup, complete or not."""
        prefix = _prefix(model, commit)
        logger.info("dropping the backup s3://%s/%s", self._bucket, prefix)
        # The manifest goes first: without it the backup is not used, even if the other deletions fail.
        retries = RetryBudget()
        retries.call(lambda: self._s3.delete_object(Bucket=self._bucket, Key=prefix + MANIFEST))
        retries.call(lambda: self._delete_all(prefix))

    def drop_until(self, model: str, moment: datetime, commits: Collection[str] | None = None) -> None:
        """Delete the model's backups that were published at or before `moment`, and incomplete ones.

        With `commits`, only backups of those commits are deleted.
        """
        for commit in self._commits(model):
            if commits is not None and commit not in commits:
                continue
            manifest = self.manifest(model, commit)
            if manifest is None or manifest.published_at <= moment:
                self.drop(model, commit)

    def _delete_all(self, prefix: str) -> None:
        for page in self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix):
            if keys := [{"Key": entry["Key"]} for entry in page.get("Contents", [])]:
                answer = self._s3.delete_objects(Bucket=self._bucket, Delete={"Objects": keys, "Quiet": True})
                if errors := answer.get("Errors"):
                    raise ClientError({"Error": errors[0]}, "DeleteObjects")

    def _commits(self, model: str) -> list[str]:
        prefixes = RetryBudget().call(lambda: self._list_prefixes(_prefix(model)))
        return [prefix.removesuffix("/").rpartition("/")[2] for prefix in prefixes]

    def _list_prefixes(self, prefix: str) -> list[str]:
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix, Delimiter="/")
        return [common["Prefix"] for page in pages for common in page.get("CommonPrefixes", [])]

    def _read(self, key: str) -> bytes:
        body: bytes = self._s3.get_object(Bucket=self._bucket, Key=key)["Body"].read()
        return body


def _prefix(model: str, commit: str | None = None) -> str:
    parts = ["models", directory_name(model), commit] if commit else ["models", directory_name(model)]
    return "/".join(parts) + "/"
