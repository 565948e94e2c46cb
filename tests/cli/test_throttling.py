"""Calls of the command line that AWS throttles are repeated, and the person is told once."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import botocore.endpoint
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from cosmos_batch.cli.deployment import environment_clients
from cosmos_batch.cli.throttling import ATTEMPTS
from tests.support.aws_answers import aws_answer

TOLD = "They are repeated with growing pauses."


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Provide the pauses that botocore would have made."""
    made: list[float] = []
    monkeypatch.setattr(botocore.endpoint, "time", SimpleNamespace(sleep=made.append))
    return made


def throttle(client: Any, times: int, status: int, body: bytes) -> None:
    """Let AWS refuse the next calls of a client."""
    answers = iter([aws_answer(status, body)] * times)
    client.meta.events.register_first("before-send", lambda **_: next(answers, None))


SLOW_DOWN = (503, b"<Error><Code>SlowDown</Code></Error>")
HEAD_REFUSED = (503, b"")
THROTTLED = (400, b'{"__type": "ThrottlingException"}')
TOO_MUCH = (400, b'{"__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"}')


@pytest.mark.parametrize(
    ("service", "answer", "call"),
    [
        ("s3", SLOW_DOWN, lambda s3: s3.put_object(Bucket="bucket", Key="k", Body=b"content")),
        ("s3", SLOW_DOWN, lambda s3: list(s3.get_paginator("list_objects_v2").paginate(Bucket="bucket"))),
        ("s3", HEAD_REFUSED, lambda s3: s3.head_bucket(Bucket="bucket")),
        ("ssm", THROTTLED, lambda ssm: ssm.get_parameter(Name="p")),
        ("stepfunctions", THROTTLED, lambda sfn: sfn.list_state_machines()),
        ("dynamodb", TOO_MUCH, lambda dynamodb: dynamodb.list_tables()),
    ],
)
def test_a_throttled_call_is_repeated_with_growing_pauses_and_told_once(
    service: str, answer: tuple[int, bytes], call: Callable[[Any], object],
    pauses: list[float], capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    with mock_aws():
        clients = environment_clients()
        clients("s3").create_bucket(Bucket="bucket")
        clients("ssm").put_parameter(Name="p", Value="v", Type="String")
        for _ in range(2):
            throttle(clients(service), ATTEMPTS - 1, *answer)
            call(clients(service))
    assert pauses[0] <= 1 < pauses[2] < pauses[4] <= 20 and len(pauses) == 2 * (ATTEMPTS - 1)
    assert capsys.readouterr().err.count(TOLD) == 1


def test_a_call_that_is_throttled_for_ever_fails_with_what_aws_said(pauses: list[float]) -> None:
    with mock_aws():
        clients = environment_clients()
        throttle(clients("ssm"), 100, *THROTTLED)
        with pytest.raises(ClientError, match="ThrottlingException"):
            clients("ssm").get_parameter(Name="p")
    assert len(pauses) == ATTEMPTS - 1


def test_a_refusal_is_not_repeated(pauses: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with mock_aws(), pytest.raises(ClientError, match="ParameterNotFound"):
        environment_clients()("ssm").get_parameter(Name="p")
    assert (pauses, capsys.readouterr().err) == ([], "")
