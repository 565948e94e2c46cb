"""Fetches what a job needs from S3: its files, to the local disk, and its prompt."""

import asyncio
import errno
import os
import shutil
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from cosmos_batch.catalogue.formats import EXTENSIONS, extension
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.job import InputFile, Job
from cosmos_batch.contract.s3 import parse_uri
from cosmos_batch.engines.job_files import input_paths
from cosmos_batch.planning.generation.actions import refuse_rows

CHUNK = 1 << 20  # bytes
# How many seconds a job waits between two attempts to reserve disk space, and how many attempts it has.
DISK_SECONDS, DISK_TRIES = 5.0, 360
_FORBIDDEN = ("AccessDenied", "403")
_CHANGED = ("PreconditionFailed", "NoSuchKey", "NoSuchVersion", "404", "412")


async def wait_for_disk(job: Job, workdir: Path) -> None:
    """Reserve disk space for a job's files; wait while other jobs on this host need it, for 30 minutes at most.

    Files of their full size are allocated on the disk, which all workers of the host share. Raises Failure
    (InvalidInput) where the job's files are larger than the whole disk, and OSError (`is_full_disk`) if it stays full.
    """
    for left in reversed(range(DISK_TRIES)):
        try:
            await asyncio.to_thread(_reserve, job, workdir)
            return
        except OSError as error:
            if not is_full_disk(error) or not left:
                raise
        await asyncio.sleep(DISK_SECONDS)


def is_full_disk(error: Exception) -> bool:
    """Return whether the error is a full disk. That is no fault of the job, which is tried again later."""
    return isinstance(error, OSError) and error.errno == errno.ENOSPC


def _reserve(job: Job, workdir: Path) -> None:
    disk, size = shutil.disk_usage(workdir), sum(source.size for source in job.inputs)
    if size > disk.total:
        raise Failure(
            "InvalidInput",
            f"{job.subject}: {size / 1e9:.1f} GB do not fit on a worker's disk, which has {disk.total / 1e9:.1f} GB.",
            "Cut them into shorter files.",
        )
    if size > disk.free:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(workdir))
    paths = input_paths(job, workdir)
    try:
        for source, path in zip(job.inputs, paths, strict=True):
            with path.open("wb") as file:
                if source.size:
                    os.posix_fallocate(file.fileno(), 0, source.size)
    except OSError:
        for path in paths:
            path.unlink(missing_ok=True)
        raise


def prepare(s3: Any, job: Job, workdir: Path) -> Job:
    """Fetch and probe the job's files, and return the job with its prompts and actions filled in; blocks.

    Raises Failure (InvalidInput) where a file was deleted or changed since the job was planned, or is damaged.
    """
    # Imported here: the libraries of media take a while to load, and the engine starts first.
    from cosmos_batch.media import label_failures, probe

    for source, path in zip(job.inputs, input_paths(job, workdir), strict=True):
        _fetch(s3, source, path)
        if extension(source.key) in EXTENSIONS:
            with label_failures(job.label(source)):
                probe(path)
    if job.generation is not None:
        return job.model_copy(update={"generation": _with_actions(job, job.generation, workdir)})
    question = _text(s3, job.prompt, job.prompt_uri)
    user_prompt = _text(s3, job.user_prompt, job.user_prompt_uri) if job.asks_more_than_the_caller else question
    texts = {"prompt": question, "prompt_uri": None, "user_prompt": user_prompt, "user_prompt_uri": None}
    return job.model_copy(update=texts)


def _with_actions(job: Job, generation: Generation, workdir: Path) -> Generation:
    """Return the generation with the actions of its action file, which is the last of the job's files."""
    from cosmos_batch.media import read_actions

    action = generation.action
    if action is None or action.path is None:
        return generation
    rows = read_actions(input_paths(job, workdir)[-1], action.width)
    refuse_rows(len(rows), action.chunk_size)
    return generation.model_copy(update={"action": action.model_copy(update={"actions": rows})})


def _fetch(s3: Any, source: InputFile, path: Path) -> None:
    version = {"VersionId": source.version_id} if source.version_id else {"IfMatch": source.etag}
    try:
        body = s3.get_object(Bucket=source.bucket, Key=source.key, **version)["Body"]
        with path.open("r+b") as file:
            for chunk in body.iter_chunks(CHUNK):
                file.write(chunk)
            file.truncate()
    except ClientError as error:
        raise _error_for(f"s3://{source.bucket}/{source.key}", error, error.response["Error"]["Code"]) from error


def _error_for(uri: str, error: Exception, code: str) -> Exception:
    """Return the job's failure for an error code of S3; for any other code, which may pass, the error itself."""
    if code in _CHANGED:
        return Failure(
            "InvalidInput",
            f"{uri} was deleted or replaced while it waited.",
            "Upload it again, or ask again for the file that is there now.",
        )
    if code in _FORBIDDEN:
        return Failure(
            "InvalidInput",
            f"{uri} may not be read by the worker.",
            "Let the worker's role read the object: bucket policy, owner and encryption key.",
        )
    return error


def _text(s3: Any, text: str | None, uri: str | None) -> str:
    """Return a text that the job has itself or, if it is long, at a URI in S3."""
    if text is not None:
        return text
    assert uri is not None, "`plan` sets one of the two"
    location = parse_uri(uri)
    try:
        body: bytes = s3.get_object(Bucket=location.bucket, Key=location.key)["Body"].read()
        return body.decode()
    except ClientError as error:
        raise _error_for(uri, error, error.response["Error"]["Code"]) from error
    except UnicodeDecodeError as error:
        raise Failure("InvalidInput", f"{uri} is not UTF-8 text.", "Save the prompt as UTF-8.") from error
