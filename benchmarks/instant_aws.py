"""AWS that answers at once: botocore does all its work but the wire, so that what is left is the worker's own."""

import io
import json
import threading
import urllib.parse
from collections.abc import Iterator
from typing import Any

from botocore.awsrequest import AWSPreparedRequest, AWSResponse

from cosmos_batch.contract import Job, JobMessage
from cosmos_batch.worker.clients import Clients

RECEIVED_AT_ONCE = 10


class _Body(io.BytesIO):
    """As urllib3's response is read by botocore."""

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self.read()


class InstantAws:
    """Serves `jobs` once each; remembers which were deleted."""

    def __init__(self, jobs: list[Job], picture: bytes) -> None:
        self._picture = picture
        self._jobs = {job.job_id: job for job in jobs}
        self._waiting = list(jobs)
        self._lock = threading.Lock()
        self.deleted = 0

    def answer_for(self, clients: Clients) -> None:
        """Take the wire away from a worker's clients."""
        for client in (clients.s3, clients.sqs, clients.dynamodb, clients.stepfunctions):
            client.meta.events.register("before-send", self._answer)

    def _answer(self, request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        operation = (request.headers.get("X-Amz-Target") or b"").decode().rpartition(".")[2]
        if operation:
            body = json.dumps(self._json_answer(operation, json.loads(request.body))).encode()
        else:
            body = self._s3_answer(request)
        headers = {"content-type": "application/x-amz-json-1.0" if operation else "application/xml"}
        return AWSResponse(request.url, 200, headers, _Body(body))

    def _json_answer(self, operation: str, asked: dict[str, Any]) -> dict[str, Any]:
        if operation == "ReceiveMessage":
            return {"Messages": self._receive()}
        if operation == "DeleteMessage":
            with self._lock:
                self.deleted += 1
        if operation == "GetItem":
            return {"Item": self._row(asked["Key"]["pk"]["S"], {})}
        if operation == "UpdateItem":
            return {"Attributes": self._row(asked["Key"]["pk"]["S"], asked["ExpressionAttributeValues"])}
        return {}

    def _receive(self) -> list[dict[str, str]]:
        with self._lock:
            taken, self._waiting = self._waiting[:RECEIVED_AT_ONCE], self._waiting[RECEIVED_AT_ONCE:]
        return [
            {
                "MessageId": job.job_id,
                "ReceiptHandle": job.job_id,
                "Body": JobMessage(schema_version=1, task_token="t", job=job).model_dump_json(),  # noqa: S106
            }
            for job in taken
        ]

    def _row(self, pk: str, values: dict[str, Any]) -> dict[str, Any]:
        """The row of a job, or of the worker and its pipeline, as the table has it after a write of `values`."""
        kind, _, name = pk.partition("#")
        if kind != "job":
            return {"worker": {"S": "bench"}, "state": {"S": "READY"}, "lastSeen": {"S": "now"}}
        row = {
            "jobId": {"S": name},
            "pipeline": {"S": self._jobs[name].pipeline},
            "document": {"S": "s3://assets-bucket/document"},
            "executionArn": {"S": name},
            "state": {"S": "PLANNED"},
        }
        if ":committed" in values:
            row |= {"state": {"S": "COMMITTED"}, "winner": values[":attempt"], "result": values[":result"]}
        return row

    def _s3_answer(self, request: AWSPreparedRequest) -> bytes:
        if request.method == "GET":
            return self._picture
        copied = "x-amz-copy-source" in {urllib.parse.unquote(name).lower() for name in request.headers}
        return b"<CopyObjectResult><ETag>e</ETag></CopyObjectResult>" if copied else b""
