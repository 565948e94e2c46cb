"""What engines compiled for a model and a GPU, kept for the next worker: in S3, as `caches/<pipeline>/<digest>.tar`.

It is code, and whoever writes it has it run: only the workers of a pipeline may write what they read. Therefore it lies
in the model bucket, where each role has a prefix of its own, and not on the file system, which is open to all of them.
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
    """The caches of one pipeline's engine. A worker can do without them: nothing here raises.

    Compiled files name each other by absolute paths, so `root` is the same on all workers, and no other worker's.

    Args:
        root: Folder of this worker alone, made if need be.
        pipeline: Whose caches.
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
        """The folder to compile into, with what another worker compiled where that was kept; None if there can be none.

        Args:
            made_for: What the compiled code depends on: what differs in any of it is not used.
        """
        self._use = None
        digest = hashlib.sha256(json.dumps(dict(made_for), sort_keys=True).encode()).hexdigest()[:_DIGEST_DIGITS]
        use = _Use(self._root / digest, f"{self._prefix}{digest}.tar", dict(made_for))
        try:
            _own(self._root)
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
        """Put what was compiled since `restore` where the next worker finds it. True if there was something new."""
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
        """Fill the folder in one step, or leave it away."""
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
        # Listed and not asked for: without the right to list all of the bucket, S3 calls what is missing forbidden.
        listed = self._s3.list_objects_v2(Bucket=self._bucket, Prefix=key, MaxKeys=1).get("Contents")
        if not listed:
            raise FileNotFoundError(key)
        if listed[0]["Size"] > SIZE_LIMIT:
            raise UnusableArchiveError(f"it has {listed[0]['Size']:,} bytes")
        self._s3.download_file(self._bucket, key, str(target))


@dataclass
class _Use:
    """One combination of model, GPU and software.

    Attributes:
        kept: What S3 holds of it.
    """

    folder: Path
    key: str
    made_for: dict[str, str]
    kept: FileSizes = field(default_factory=dict)


def _own(root: Path) -> None:
    """Make a folder that nobody else can write to, or raise OSError: others would have their code run by us."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = root.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise PermissionError(f"{root} is not ours alone")
