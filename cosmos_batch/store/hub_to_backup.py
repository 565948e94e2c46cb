"""Copies a model from the Hugging Face Hub into the backup in S3, for workers that cannot reach the Hub."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.model_name import ModelName
from cosmos_batch.store.backup import Backup
from cosmos_batch.store.huggingface import Hub
from cosmos_batch.store.manifest import ModelManifest
from cosmos_batch.store.model_ids import directory_name
from cosmos_batch.store.progress import ByteProgress, report_progress, silent

if TYPE_CHECKING:
    from botocore.client import BaseClient

LOGIN = "HF_TOKEN, or sign in with `hf auth login`"


def copy_hub_model_to_backup(
    model: str,
    bucket: str,
    s3: "BaseClient",
    scratch: Path,
    on_download: ByteProgress = silent,
    on_upload: ByteProgress = silent,
) -> bool:
    """Copy a model (`org/name` or `org/name@revision`) from the Hub to S3, through the empty folder `scratch`.

    Workers restore it like a backup of their own. The model's lock is on the workers' file system and cannot be held
    here. Instead the manifest is uploaded last; and if an invalidation deletes files of the backup meanwhile, workers
    find it damaged, and it must be copied again.

    Returns:
        True if it uploaded, False if S3 has that commit.

    Raises:
        Failure: `ModelUnavailable`.
        One of `store.s3_retries.FAULTS`: S3 failed or refused.
    """
    name = ModelName.parse(model)
    model = name.model
    directory_name(model)  # raises Failure where it is not an id of the Hub
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
