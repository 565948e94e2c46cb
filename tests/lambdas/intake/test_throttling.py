"""Throttled events are sent to the queue again, and do not delay the other events of their batch."""

import json
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cosmos_batch.contract.environment import UploadEnvironment
from lambdas.clients import is_throttling
from lambdas.handlers import upload
from lambdas.intake import uploads
from lambdas.sqs_records import MARGIN_SECONDS, each_record
from tests.lambdas.cloud import Cloud, sqs_batch
from tests.lambdas.intake.test_uploads import NOTHING_FAILED, PROMPT, created

# A call of `upload`, and how its service refuses it.
REFUSALS = {
    "stepfunctions.StartExecution": (400, "ThrottlingException"),
    "stepfunctions.StartExecution too many": (400, "ExecutionLimitExceeded"),
    "stepfunctions.StartExecution by another code": (400, "RequestThrottledException"),
    "s3.HeadObject": (503, "503"),
    "s3.GetObject": (503, "SlowDown"),
    "s3.GetObject of a key": (400, "KMS.ThrottlingException"),
    "s3.GetObjectTagging": (503, "SlowDown"),
    "dynamodb.GetItem": (400, "ProvisionedThroughputExceededException"),
}


@pytest.fixture(autouse=True)
def _environment(configure: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    configure(UploadEnvironment)
    monkeypatch.setattr(uploads, "THROTTLED_SECONDS", (1, 1))


@pytest.fixture(params=REFUSALS)
def busy(cloud: Cloud, request: pytest.FixtureRequest) -> Iterator[Callable[[], None]]:
    """Make a service refuse calls about `busy.mp4` after all retries; return a function that ends that."""
    service, operation = request.param.split()[0].split(".")
    status, code = REFUSALS[request.param]

    def refuse(params: dict[str, Any], **_: Any) -> None:
        if "busy.mp4" in str(params):
            answer: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
            raise ClientError(answer, operation)

    events, hook = getattr(cloud, service).meta.events, f"before-call.{service}.{operation}"
    events.register(hook, refuse)
    yield lambda: events.unregister(hook, refuse)
    events.unregister(hook, refuse)


def names(cloud: Cloud) -> list[str]:
    return sorted(execution["input"]["input"].rpartition("/")[2] for execution in cloud.executions())


def test_a_throttled_event_is_received_again_until_its_run_is_started(cloud: Cloud, busy: Callable[[], None]) -> None:
    files = ("one.mp4", "busy.mp4", "two.mp4")
    batch = sqs_batch(*(created(key, cloud.put(key, Metadata=PROMPT)) for key in files))
    assert upload.handler(batch, None) == NOTHING_FAILED, "it does not come nearer to the dead letters"
    assert names(cloud) == ["one.mp4", "two.mp4"]
    [again] = cloud.sqs.receive_message(QueueUrl=cloud.uploads, WaitTimeSeconds=10)["Messages"]
    assert json.loads(again["Body"]) == json.loads(batch["Records"][1]["body"])
    busy()
    assert upload.handler(sqs_batch(again["Body"]), None) == NOTHING_FAILED
    assert names(cloud) == ["busy.mp4", "one.mp4", "two.mp4"]


def test_other_errors_are_not_throttling() -> None:
    denied: Any = {"Error": {"Code": "AccessDenied"}, "ResponseMetadata": {"HTTPStatusCode": 403}}
    assert not is_throttling(ClientError(denied, "GetObject"))
    assert not is_throttling(ValueError("no JSON"))


def test_the_records_of_a_batch_are_handled_at_the_same_time() -> None:
    together = threading.Barrier(10)
    assert each_record(sqs_batch(*range(10)), lambda _: together.wait(60) and None) == NOTHING_FAILED


def test_only_a_late_record_goes_back_to_the_queue(capsys: pytest.CaptureFixture[str]) -> None:
    """Without that, Lambda would end the function at its timeout and return the whole batch."""
    released, others = threading.Event(), threading.Semaphore(0)

    def take(record: dict[str, Any]) -> None:
        if record["messageId"] == "m1":
            released.wait()
        others.release()

    def remaining() -> int:
        """Return so little time, once the other records are done, that half a second is left to notice it."""
        for _ in range(2):
            others.acquire()
        return MARGIN_SECONDS * 1000 + 500

    context = SimpleNamespace(get_remaining_time_in_millis=remaining)
    try:
        answer = each_record(sqs_batch(*range(3)), take, context)
    finally:
        released.set()
    assert answer == {"batchItemFailures": [{"itemIdentifier": "m1"}]}
    assert "record is late" in capsys.readouterr().out
