"""A stand-in for AWS below botocore: botocore builds and parses everything, and responses come after a set delay."""

import base64
import io
import json
import threading
import time
import urllib.parse
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from botocore.awsrequest import AWSPreparedRequest, AWSResponse

from cosmos_batch.contract.job import SCHEMA_VERSION, Job, JobMessage
from cosmos_batch.worker.clients import Clients


class _Body(io.BytesIO):
    """The response body, with the interface of urllib3 that botocore reads."""

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self.read()


class InstantAws:
    """Delivers each of `jobs` once, and records how many messages were deleted and what was reported.

    Parameters
    ----------
    jobs
        The jobs in the queue.
    files
        The content of each input by its S3 key.
    seconds_per_call
        Seconds that each call takes.
    """

    def __init__(self, jobs: list[Job], files: Mapping[str, bytes], seconds_per_call: float = 0.0) -> None:
        self._files = files
        self._seconds_per_call = seconds_per_call
        self._jobs: dict[str, Job] = {}
        self._waiting: list[Job] = []
        self._lock = threading.Condition()
        self.deleted = 0
        self.reported: list[dict[str, Any]] = []
        self.send(jobs)

    def send(self, jobs: list[Job]) -> None:
        """Add jobs to the queue."""
        with self._lock:
            self._jobs |= {job.job_id: job for job in jobs}
            self._waiting += jobs
            self._lock.notify_all()

    def answer_for(self, clients: Clients) -> None:
        """Answer the requests of a worker's AWS clients from this object, without a network."""
        for client in (clients.s3, clients.sqs, clients.dynamodb, clients.stepfunctions):
            client.meta.events.register("before-send", self._answer)

    def _answer(self, request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        if self._seconds_per_call:
            time.sleep(self._seconds_per_call)
        operation = (request.headers.get("X-Amz-Target") or b"").decode().rpartition(".")[2]
        if operation:
            body = json.dumps(self._json_answer(operation, json.loads(request.body))).encode()
        else:
            body = self._s3_answer(request)
        headers = {"content-type": "application/x-amz-json-1.0" if operation else "application/xml", "etag": "e"}
        return AWSResponse(request.url, 200, headers, _Body(body))

    def _json_answer(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        if operation == "ReceiveMessage":
            return {"Messages": self._receive(request["MaxNumberOfMessages"], request.get("WaitTimeSeconds", 0))}
        if operation == "DeleteMessage":
            with self._lock:
                self.deleted += 1
        if operation == "ChangeMessageVisibility":
            self.send([self._jobs[request["ReceiptHandle"]]])
        if operation == "SendTaskSuccess":
            self.reported.append(json.loads(request["output"]))
        if operation == "GetItem":
            return {"Item": self._row(request["Key"], {})}
        if operation == "UpdateItem":
            return {"Attributes": self._row(request["Key"], request["ExpressionAttributeValues"])}
        return {}

    def _receive(self, at_most: int, wait_seconds: int) -> list[dict[str, str]]:
        with self._lock:
            self._lock.wait_for(lambda: self._waiting, wait_seconds)
            taken, self._waiting = self._waiting[:at_most], self._waiting[at_most:]
        return [
            {
                "MessageId": job.job_id,
                "ReceiptHandle": job.job_id,
                "Body": JobMessage(schema_version=SCHEMA_VERSION, task_token="t", job=job).model_dump_json(),  # noqa: S106
            }
            for job in taken
        ]

    def _row(self, key: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
        """Return the table's row of a job, its document, or a worker and its pipeline, after a write of `values`."""
        kind, _, name = key["pk"]["S"].partition("#")
        if key["sk"]["S"].startswith("document#"):
            return {"document": {"B": base64.b64encode(zlib.compress(b"{}")).decode()}}
        if kind != "job":
            return {"worker": {"S": "bench"}, "state": {"S": "READY"}, "lastSeen": {"S": "now"}}
        row = {
            "jobId": {"S": name},
            "pipeline": {"S": self._jobs[name].pipeline},
            "document": {"S": "s3://assets-bucket/document"},
            "executionArn": {"S": name},
            "state": {"S": "PLANNED"},
            "stages": {"M": {"planned": {"S": "2026-11-29T00:00:00+00:00"}}},
        }
        if {":attempt", ":result"} <= values.keys():  # the result of an attempt is committed
            row |= {"state": {"S": "COMMITTED"}, "winner": values[":attempt"], "result": values[":result"]}
        return row

    def _s3_answer(self, request: AWSPreparedRequest) -> bytes:
        if "list-type=2" in request.url:
            return b"<ListBucketResult/>"
        if request.method == "POST":  # it begins or ends an upload in parts
            return b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"
        if request.method == "GET":
            return self._files[request.url.partition("?")[0].rpartition("/")[2]]
        copied = "x-amz-copy-source" in {urllib.parse.unquote(name).lower() for name in request.headers}
        return b"<CopyObjectResult><ETag>e</ETag></CopyObjectResult>" if copied else b""
