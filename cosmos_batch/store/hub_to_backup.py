"""A model brought from the Hub into the backup, for workers that cannot reach the Hub."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.model_name import ModelName
from cosmos_batch.store.backup import Backup
from cosmos_batch.store.huggingface import Hub
from cosmos_batch.store.manifest import ModelManifest
from cosmos_batch.store.model_ids import directory_name
from cosmos_batch.store.progress import Progress, report_progress, silent

if TYPE_CHECKING:
    from botocore.client import BaseClient

LOGIN = "HF_TOKEN, or sign in with `hf auth login`"


def copy_hub_model_to_backup(
    model: str,
    bucket: str,
    s3: "BaseClient",
    scratch: Path,
    on_download: Progress = silent,
    on_upload: Progress = silent,
) -> bool:
    """Copy a revision of a model (`org/name`, `org/name@revision`) from the Hub to S3, by way of the empty folder
    `scratch`.

    A store restores it like a worker's own backup. No lock is held, which only workers share: the manifest comes last,
    and a backup that an invalidation took files of meanwhile is found damaged, and put again.

    Returns:
        True if it uploaded, False if S3 has that commit.

    Raises:
        Failure: `ModelUnavailable`.
        One of `store.s3_retries.FAULTS`: What S3 says.
    """
    name = ModelName.parse(model)
    model = name.model
    directory_name(model)  # refuses what is no id of the Hub
    hub, backup = Hub(model, None, LOGIN), Backup(bucket, s3)
    revision = hub.resolve(name.revision)
    if backup.manifest(model, revision.commit) is not None:
        return False
    free = shutil.disk_usage(scratch).free
    if free < revision.size:
        raise Failure(
            "ModelUnavailable",
            f"{model} has {revision.size:,} bytes, and {free:,} are free at {scratch.parent}.",
            "Free space there, or set TMPDIR to a folder with more.",
        )
    with report_progress(scratch, revision.size, on_download):
        revision = hub.download(revision, scratch)
    backup.upload(scratch, ModelManifest.downloaded(model, revision), on_upload)
    return True
