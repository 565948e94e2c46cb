"""A role in VAMS's account answers tokens of that account."""

from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest

from cosmos_batch.contract.environment import ReportEnvironment, VamsEnvironment
from cosmos_batch.contract.error import Error
from cosmos_batch.contract.result import Output, Result
from cosmos_batch.state import Callbacks
from lambdas import clients
from lambdas.clients import vams_client
from lambdas.handlers import report, vams
from lambdas.reporting import report as reporting
from tests.lambdas.cloud import Cloud

ROLE = "arn:aws:iam::999999999999:role/cosmos-callbacks"
make_client = boto3.client  # before the fixture replaces it
TOKEN = "AQCcAAAAKgAAAAMAAAAAAAAAAXVhbXM="


@pytest.fixture
def sessions(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Provide the identity of each client for VAMS's account, as moto's STS returns it."""
    who: list[str] = []

    def client(service: str, **arguments: Any) -> Any:
        if service == "sts":
            return make_client("sts", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
        if "aws_session_token" in arguments:
            caller = make_client("sts", region_name="us-east-1", **arguments).get_caller_identity()
            who.append(f"{service} {caller['Arn']}")
        return cloud.client(service)

    monkeypatch.setattr(boto3, "client", client)
    clients._client_of_role.cache_clear()
    yield who
    clients._client_of_role.cache_clear()


def ended(job_id: str, error: Error | None = None) -> None:
    """Call `report` as the state machine does when a job has ended."""
    execution = {"id": f"arn:execution:{job_id}", "name": job_id, "startTime": "2026-11-12T00:00:00Z"}
    if error is not None:
        report.handler({"execution": execution, "error": {"Error": error.code, "Cause": error.cause()}}, None)
    else:
        output = Output(uri=f"s3://assets/{job_id}.json", size=9, content_type="application/json")
        result = Result(job_id=job_id, outputs=[output])
        report.handler({"execution": execution, "result": result.model_dump(mode="json")}, None)


def failure(code: str, message: str) -> Error:
    return Error(code=code, message=message, remedy="Try another.", retryable=False)


class TestAnotherAccount:
    """Tests of `vams.callbackRoleArn`."""

    def test_report_answers_as_the_role(
        self, cloud: Cloud, sessions: list[str], configure: Callable[..., None]
    ) -> None:
        configure(ReportEnvironment, callback_role=ROLE)
        Callbacks(cloud.table).keep("job-1", TOKEN)
        ended("job-1")
        assert sessions == ["stepfunctions arn:aws:sts::999999999999:assumed-role/cosmos-callbacks/cosmos-batch"]
        assert [answer["taskToken"] for answer in cloud.stepfunctions.answers] == [TOKEN]

    def test_vams_refuses_as_the_role(self, cloud: Cloud, sessions: list[str], configure: Callable[..., None]) -> None:
        configure(VamsEnvironment, callback_role=ROLE)
        vams.handler({"body": {"TaskToken": TOKEN}}, None)
        assert len(sessions) == len(cloud.stepfunctions.answers) == 1

    def test_our_own_machine_is_ours(self, cloud: Cloud, sessions: list[str]) -> None:
        assert vams_client("stepfunctions", None) is cloud.stepfunctions
        assert sessions == []

    def test_a_session_is_kept_for_half_of_its_life(
        self, cloud: Cloud, sessions: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for now in (3600.0, 5399.0, 5400.0):
            monkeypatch.setattr(clients.time, "time", lambda now=now: now)
            vams_client("stepfunctions", ROLE)
        assert len(sessions) == 2

    def test_a_role_that_may_not_be_assumed_is_tried_again(
        self, cloud: Cloud, monkeypatch: pytest.MonkeyPatch, configure: Callable[..., None]
    ) -> None:
        """`report` raises, so the state machine calls it again; nothing is recorded as reported."""
        configure(ReportEnvironment, callback_role=ROLE)

        def refuses(*_: str) -> None:
            raise PermissionError

        monkeypatch.setattr(reporting, "vams_client", refuses)
        Callbacks(cloud.table).keep("job-1", TOKEN)
        with pytest.raises(PermissionError):
            ended("job-1")
        assert Callbacks(cloud.table).waiting("job-1") == TOKEN
        assert cloud.events.entries == []
