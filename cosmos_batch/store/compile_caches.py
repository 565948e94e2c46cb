"""Keeps the code that engines compile for a model and a GPU in S3, as `caches/<pipeline>/<digest>.tar` (decision 051).

Workers execute what they read there, so only the workers of the same pipeline may write it. That is why it is in the
model bucket, where each pipeline's role has a prefix of its own, and not on the file system that all workers share.
"""

import hashlib
import json
import logging
import os
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from cosmos_batch.store.cache_archive import (
    SIZE_LIMIT,
    FileSizes,
    UnusableArchiveError,
    extract_archive,
    list_files,
    write_archive,
)

if TYPE_CHECKING:
    from botocore.client import BaseClient

logger = logging.getLogger(__name__)

_DIGEST_DIGITS = 32


class CompileCaches:
    """The compile caches of one pipeline's engine. They only save time, so no method raises.

    Compiled files refer to each other by absolute paths. So `root` is the same path in every worker's container.

    Args:
        root: Folder that no other process can write to; created if it is missing.
        pipeline: Id of the pipeline.
        bucket: The model bucket.
        s3: boto3 client of S3. The role needs `s3:GetObject` and `s3:PutObject` on `caches/<pipeline>/*`, and
            `s3:ListBucket` of that prefix.
    """

    def __init__(self, root: Path, pipeline: str, bucket: str, s3: "BaseClient") -> None:
        self._root = root
        self._prefix = f"caches/{pipeline}/"
        self._bucket = bucket
        self._s3 = s3
        self._use: _Use | None = None

    def restore(self, made_for: Mapping[str, str]) -> Path | None:
        """Return the folder to compile into, filled with compiled code that was kept for the same `made_for`.

        Returns None if the folder cannot be used.

        Args:
            made_for: What the compiled code depends on: model, revision, GPU, driver, versions of libraries.
        """
        self._use = None
        digest = hashlib.sha256(json.dumps(dict(made_for), sort_keys=True).encode()).hexdigest()[:_DIGEST_DIGITS]
        use = _Use(self._root / digest, f"{self._prefix}{digest}.tar", dict(made_for))
        try:
            _create_private(self._root)
            if not use.folder.exists():
                self._fetch(use)
                use.folder.mkdir(exist_ok=True)
            use.kept = list_files(use.folder)
        except OSError as error:
            logger.warning("nothing compiled is kept: %s", error)
            return None
        self._use = use
        return use.folder

    def keep(self) -> bool:
        """Upload what was compiled since `restore` for the next worker. Returns True if there was something new."""
        use = self._use
        if use is None:
            return False
        try:
            if list_files(use.folder) == use.kept:
                return False
            with tempfile.NamedTemporaryFile(prefix="caches-") as file:
                packed = write_archive(use.folder, use.made_for, Path(file.name))
                self._s3.upload_file(file.name, self._bucket, use.key)
        except UnusableArchiveError as error:
            logger.info("what was compiled is not kept yet: %s", error)
            return False
        except Exception:
            logger.warning("what was compiled could not be kept; the next worker compiles it again", exc_info=True)
            return False
        use.kept = packed
        logger.info("kept what was compiled: %d files, %d bytes", len(packed), sum(packed.values()))
        return True

    def _fetch(self, use: "_Use") -> None:
        """Create the folder with the kept files in one step, or not at all."""
        with tempfile.TemporaryDirectory(prefix=".partial-", dir=self._root) as partial:
            try:
                files = Path(partial) / "files"
                self._download(use.key, Path(partial) / "pack")
                extract_archive(Path(partial) / "pack", use.made_for, files)
                files.rename(use.folder)
                logger.info("the engine starts with what %s holds", use.key)
            except FileNotFoundError:
                logger.info("nothing compiled is kept for this model, GPU, driver and software yet")
            except Exception as error:
                logger.warning("what %s holds is not used: %s", use.key, error)

    def _download(self, key: str, target: Path) -> None:
        # Listed first: without the right to list the whole bucket, GetObject of a missing key fails with AccessDenied.
        listed = self._s3.list_objects_v2(Bucket=self._bucket, Prefix=key, MaxKeys=1).get("Contents")
        if not listed:
            raise FileNotFoundError(key)
        if listed[0]["Size"] > SIZE_LIMIT:
            raise UnusableArchiveError(f"it has {listed[0]['Size']:,} bytes, more than the limit of {SIZE_LIMIT:,}")
        self._s3.download_file(self._bucket, key, str(target))


@dataclass
class _Use:
    """A cache's folder and S3 object for one combination of model, GPU and software.

    Attributes:
        kept: The files that are in S3.
    """

    folder: Path
    key: str
    made_for: dict[str, str]
    kept: FileSizes = field(default_factory=dict)


def _create_private(root: Path) -> None:
    """Create a folder that no other user can write to, or raise OSError: its code is executed."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = root.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise PermissionError(f"{root} is not ours alone")
