"""Decide how a run over several files of VAMS ends, and tell which of them have no result (decision 032)."""

import json
from datetime import datetime

from cosmos_batch.contract.error import MESSAGE_LIMIT, Error
from cosmos_batch.contract.error_documents import FailedFile, RunErrors
from cosmos_batch.contract.s3 import OBJECT_MARKER, S3Location, parse_uri
from lambdas.clients import client
from lambdas.log import log_fault

NAMED_FILES = 5  # how many files an error names; the document names all


def end_of_files(run: str, since: str | None, prefix: str | None, files: int, failed: list[FailedFile]) -> Error | str:
    """Return the output that VAMS is answered with, as JSON, or the error of a run without any result.

    If some files failed, a document among the results lists them. If that cannot be written, the run fails: nothing
    else would name them. `since` is when the run began (ISO 8601), and `prefix` the S3 URI below which its results lie;
    rows from before decision 033 have neither.
    """
    counts = {"files": files}
    if not failed:
        return json.dumps(counts)
    if len(failed) == files or since is None or prefix is None:
        return error_of_files(failed, files, prefix)
    try:
        errors = _write_errors(run, since, prefix, files, failed)
    except Exception as error:
        log_fault("the document of errors could not be written; the run fails", error, run=run)
        return error_of_files(failed, files, prefix)
    return json.dumps({**counts, "failed": len(failed), "errors": errors.uri})


def error_of_files(failed: list[FailedFile], files: int, prefix: str | None) -> Error:
    """Return which of a run's files failed, with code and message of the worst error: one that cannot pass, if any.

    `prefix` is where the results of the other files lie, if that is known.
    """
    worst = min(failed, key=lambda file: file.error.retryable).error
    names = ", ".join(f"{file.file} ({file.error.code})" for file in failed[:NAMED_FILES])
    more = f" and {len(failed) - NAMED_FILES} more" if len(failed) > NAMED_FILES else ""
    where = "" if prefix is None or len(failed) == files else f" The others' results lie in {prefix}."
    return Error(
        code=worst.code,
        message=f"{len(failed)} of {files} files failed: {names}{more}. {worst.message}"[:MESSAGE_LIMIT],
        remedy=f"{worst.remedy or 'Run it on those again.'}{where}"[:MESSAGE_LIMIT],
        retryable=any(file.error.retryable for file in failed),
    )


def _write_errors(run: str, since: str, prefix: str, files: int, failed: list[FailedFile]) -> S3Location:
    """Write the document that lists the failed files of a run, and return its location."""
    timestamp = f"{datetime.fromisoformat(since):%Y%m%d-%H%M%S}"
    errors = RunErrors(run_id=run, timestamp=timestamp, files=files, failed=failed)
    location = errors.location(parse_uri(prefix))
    client("s3").put_object(
        Bucket=location.bucket,
        Key=location.key,
        Body=errors.model_dump_json(indent=2).encode(),
        ContentType="application/json",
        Metadata={OBJECT_MARKER: run},
    )
    return location
