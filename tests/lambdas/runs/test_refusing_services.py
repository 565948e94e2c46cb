"""SQS, EventBridge and S3 refuse calls of a run's functions, which are repeated until they succeed."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from infra.constructs.function_errors import PASSING
from lambdas.clients import Throttled
from lambdas.runs import item_messages
from tests.lambdas.runs.conftest import RUN, RunFixture, sent_ids


def refuse_the_last(bench: RunFixture, patch: pytest.MonkeyPatch, refusals: int) -> list[float]:
    """Let SQS refuse the last message of the first `refusals` batches; return a list to which each pause is added."""
    pauses, left, send = list[float](), iter(range(refusals)), bench.cloud.sqs.send_message_batch

    def refuse(QueueUrl: str, Entries: list[dict[str, str]]) -> dict[str, Any]:  # noqa: N803 - boto3's names
        taken = Entries if next(left, None) is None else Entries[:-1]
        if taken:
            send(QueueUrl=QueueUrl, Entries=taken)
        return {"Failed": [{"Id": entry["Id"], "Code": "ServiceUnavailable"} for entry in Entries[len(taken) :]]}

    patch.setattr(bench.cloud.sqs, "send_message_batch", refuse)
    patch.setattr(item_messages, "time", SimpleNamespace(sleep=pauses.append))
    return pauses


def test_a_message_that_sqs_refuses_is_sent_again_with_growing_pauses_and_the_others_are_not(
    bench: RunFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = refuse_the_last(bench, monkeypatch, refusals=2)
    bench.started(bench.items("a", "b", "c"))
    assert (len(sent_ids(bench)), len(set(sent_ids(bench)))) == (3, 3)
    assert pauses == list(item_messages.PAUSES[:2])


def test_a_message_that_sqs_refuses_for_long_is_sent_when_the_state_is_tried_again(
    bench: RunFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = bench.write(bench.items("a", "b"))
    bench.prepare()
    with monkeypatch.context() as fault:
        refuse_the_last(bench, fault, refusals=1000)
        with pytest.raises(RuntimeError, match="SQS did not take 1 messages: ServiceUnavailable"):
            bench.feed(ref)
    assert len(set(sent_ids(bench))) == 1
    bench.feed(ref, token="again")
    assert (len(set(sent_ids(bench))), bench.shard().state) == (2, "RUNNING")


def test_an_event_that_eventbridge_refuses_is_published_when_the_state_is_tried_again(
    bench: RunFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = bench.started(bench.items("a"))
    bench.answer(sent_ids(bench)[0])
    bench.collect(ref)
    refusal = {"FailedEntryCount": 1, "Entries": [{"ErrorCode": "ThrottlingException"}]}
    with monkeypatch.context() as fault:
        fault.setattr(bench.cloud.events, "put_events", lambda **_: refusal)
        with pytest.raises(RuntimeError, match="ThrottlingException"):
            bench.finish()
    assert bench.finish()["summary"]["state"] == "SUCCEEDED"
    assert len(bench.cloud.events.entries) == 1


@pytest.mark.parametrize("step", ["prepare", "feed", "collect", "finish"])
def test_a_call_that_s3_throttles_is_tried_again_for_days(bench: RunFixture, step: str) -> None:
    ref = bench.started(bench.items("a"))
    bench.answer(sent_ids(bench)[0])
    second = bench.write(bench.items("b"), run="other")
    bench.prepare({"id": "other"}, execution="other")
    calls: dict[str, tuple[str, Callable[[], object]]] = {
        "prepare": ("GetObject", lambda: bench.prepare(execution="e2")),
        "feed": ("GetObject", lambda: bench.feed(second)),
        "collect": ("PutObject", lambda: bench.collect(ref)),
        "finish": ("PutObject", bench.finish),
    }
    operation, call = calls[step]

    def slow_down(**_: object) -> None:
        answer: Any = {"Error": {"Code": "SlowDown"}, "ResponseMetadata": {"HTTPStatusCode": 503}}
        raise ClientError(answer, operation)

    events, hook = bench.cloud.s3.meta.events, f"before-call.s3.{operation}"
    events.register(hook, slow_down)
    try:
        with pytest.raises(Throttled) as raised:
            call()
    finally:
        events.unregister(hook, slow_down)
    assert type(raised.value).__name__ in PASSING


def test_a_throttled_reading_of_the_pipelines_is_tried_again_for_days(bench: RunFixture) -> None:
    bench.write(bench.items("a"))

    def throttle(**_: object) -> None:
        raise ClientError({"Error": {"Code": "ThrottlingException"}}, "GetParameters")

    events = bench.cloud.ssm.meta.events
    events.register("before-call.ssm.GetParameters", throttle)
    try:
        with pytest.raises(Throttled):
            bench.prepare()
    finally:
        events.unregister("before-call.ssm.GetParameters", throttle)
    assert bench.prepare()["run"] == RUN
