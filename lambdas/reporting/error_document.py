"""An error, written beside the file whose upload asked for a result: who uploads may see nothing else of ours."""

import json
from datetime import datetime
from typing import Any

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.error_document import ErrorDocument
from cosmos_batch.contract.job import OutputKey
from cosmos_batch.contract.s3 import OBJECT_MARKER, error_document_key, parse_uri
from cosmos_batch.state import ReservedKeys
from lambdas.clients import client
from lambdas.log import log, log_fault
from lambdas.output_keys import reserve_second

# A person stopped it, or a late sidecar did: then another run has taken its place.
UNTOLD = ("Cancelled",)
# The bucket's owner does not let us write there, or there is no such bucket: that gets no better.
_FORBIDDEN = (403, 404)


def write_error_document(job_id: str, error: Error, request: Any, started_at: datetime, outputs: ReservedKeys) -> None:
    """Write it, if an upload started the job: `request` is its execution's input, of any JSON type.

    Written again, it is the same document under the same name.
    """
    if not isinstance(request, dict) or request.get("uploaded") is not True or error.code in UNTOLD:
        return
    uri = str(request.get("requestFile") or request.get("input"))
    try:
        file = parse_uri(uri)
        reserved = reserve_second(
            outputs,
            started_at,
            job_id,
            lambda timestamp: OutputKey(bucket=file.bucket, key=error_document_key(file.key, timestamp)),
        )
    except ValueError as fault:  # no URI, or no room for a longer name in S3's limit
        log_fault("no document of the error", fault, jobId=job_id)
        return
    if reserved is None:
        log("no document of the error: all names are taken", level="ERROR", jobId=job_id)
        return
    document = ErrorDocument(
        error=error,
        input_file=uri,
        input_version_id=request.get("requestFileVersion") or request.get("inputVersionId"),
        pipeline=str(request.get("pipeline")),
        job_id=job_id,
        timestamp=reserved[1],
    )
    _put(reserved[0], document)


def _put(place: OutputKey, document: ErrorDocument) -> None:
    s3 = client("s3")
    try:
        s3.put_object(
            Bucket=place.bucket,
            Key=place.key,
            Body=json.dumps(document.model_dump(mode="json"), ensure_ascii=False, indent=2).encode(),
            ContentType="application/json",
            Metadata={OBJECT_MARKER: document.job_id},
        )
    except s3.exceptions.ClientError as fault:
        if fault.response["ResponseMetadata"]["HTTPStatusCode"] not in _FORBIDDEN:
            raise
        log_fault("the document of the error cannot be written", fault, jobId=document.job_id)
