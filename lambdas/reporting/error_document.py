"""Write a job's error beside the file whose upload started it: the uploader may see nothing else of Cosmos Batch."""

import json
from datetime import datetime
from typing import Any

from cosmos_batch.catalogue.aws_errors import may_pass
from cosmos_batch.contract.error import Error
from cosmos_batch.contract.error_documents import ErrorDocument
from cosmos_batch.contract.job import OutputKey
from cosmos_batch.contract.s3 import OBJECT_MARKER, error_document_key, parse_uri
from cosmos_batch.state import ReservedKeys
from lambdas.clients import client
from lambdas.log import log, log_fault

# Codes of errors for which no document is written. A cancelled job was stopped by a person, or by a late sidecar, for
# which another run has taken its place.
NOT_WRITTEN = ("Cancelled",)


def write_error_document(job_id: str, error: Error, request: Any, started_at: datetime, keys: ReservedKeys) -> None:
    """Write the error of a job that an upload started; do nothing for any other job.

    `request` is the execution's input, of any JSON type. A second call writes the same document under the same key. A
    bucket that refuses the document for good leaves only a log line. Raises ClientError if a later call may succeed.
    """
    if not isinstance(request, dict) or request.get("uploaded") is not True or error.code in NOT_WRITTEN:
        return
    uri = str(request.get("requestFile") or request.get("input"))
    try:
        file = parse_uri(uri)
        reserved = keys.reserve_second(
            started_at,
            job_id,
            lambda timestamp: OutputKey(bucket=file.bucket, key=error_document_key(file.key, timestamp)),
        )
    except ValueError as fault:  # it is no S3 URI, or the document's key would be longer than S3 allows
        log_fault("no document of the error", fault, jobId=job_id)
        return
    if reserved is None:
        log("no document of the error: all names are taken", level="ERROR", jobId=job_id)
        return
    output, timestamp = reserved
    document = ErrorDocument(
        error=error,
        input_file=uri,
        input_version_id=request.get("requestFileVersion") or request.get("inputVersionId"),
        pipeline=str(request.get("pipeline")),
        job_id=job_id,
        timestamp=timestamp,
    )
    _put(output, document)


def _put(output: OutputKey, document: ErrorDocument) -> None:
    s3 = client("s3")
    try:
        s3.put_object(
            Bucket=output.bucket,
            Key=output.key,
            Body=json.dumps(document.model_dump(mode="json"), ensure_ascii=False, indent=2).encode(),
            ContentType="application/json",
            Metadata={OBJECT_MARKER: document.job_id},
        )
    except s3.exceptions.ClientError as fault:
        if may_pass(fault.response):
            raise
        log_fault("the document of the error cannot be written", fault, jobId=document.job_id)
