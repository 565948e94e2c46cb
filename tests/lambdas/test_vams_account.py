"""Tokens of another account are answered by a role there; several files are answered at once."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest

from cosmos_batch.contract.environment import ReportEnvironment, VamsEnvironment
from cosmos_batch.contract.error import Error
from cosmos_batch.contract.result import Output, Result
from cosmos_batch.state import Callbacks, Groups
from lambdas import report, vams, vams_account
from lambdas.vams_account import vams_client
from tests.lambdas.cloud import Cloud

ROLE = "arn:aws:iam::999999999999:role/cosmos-callbacks"
make_client = boto3.client  # before the fixture replaces it
TOKEN = "AQCcAAAAKgAAAAMAAAAAAAAAAXVhbXM="


@pytest.fixture
def sessions(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Who each client of VAMS's account is, as moto's STS tells."""
    who: list[str] = []

    def client(service: str, **arguments: Any) -> Any:
        if service == "sts":
            return make_client("sts", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
        if "aws_session_token" in arguments:
            caller = make_client("sts", region_name="us-east-1", **arguments).get_caller_identity()
            who.append(f"{service} {caller['Arn']}")
        return cloud.client(service)

    monkeypatch.setattr(boto3, "client", client)
    vams_account._as_role.cache_clear()
    yield who
    vams_account._as_role.cache_clear()


def ended(job_id: str, error: Error | None = None) -> None:
    """The state machine says that a job has ended."""
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
    """`vams.callbackRoleArn`"""

    def test_report_answers_as_the_role(
        self, cloud: Cloud, sessions: list[str], configure: Callable[..., None]
    ) -> None:
        configure(ReportEnvironment, callback_role=ROLE)
        Callbacks(cloud.table).keep("job-1", TOKEN)
        ended("job-1")
        assert sessions == ["stepfunctions arn:aws:sts::999999999999:assumed-role/cosmos-callbacks/cosmos-batch"]
        assert [one["taskToken"] for one in cloud.stepfunctions.answers] == [TOKEN]

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
            monkeypatch.setattr(vams_account.time, "time", lambda now=now: now)
            vams_client("stepfunctions", ROLE)
        assert len(sessions) == 2

    def test_a_role_that_may_not_be_assumed_is_tried_again(
        self, cloud: Cloud, monkeypatch: pytest.MonkeyPatch, configure: Callable[..., None]
    ) -> None:
        """`report` raises, so the state machine calls it again; nothing counts as reported."""
        configure(ReportEnvironment, callback_role=ROLE)

        def refuses(*_: str) -> None:
            raise PermissionError

        monkeypatch.setattr(report, "vams_client", refuses)
        Callbacks(cloud.table).keep("job-1", TOKEN)
        with pytest.raises(PermissionError):
            ended("job-1")
        assert Callbacks(cloud.table).waiting("job-1") == TOKEN
        assert cloud.events.entries == []


class TestSeveralFiles:
    """One callback for all of them."""

    @pytest.fixture(autouse=True)
    def _group(self, cloud: Cloud, configure: Callable[..., None]) -> None:
        configure(ReportEnvironment)
        groups = Groups(cloud.table)
        groups.open("run", TOKEN, 3)
        for number in range(3):
            groups.join(f"job-{number}", "run", f"clips/{number}.mp4")

    def test_the_last_end_answers(self, cloud: Cloud) -> None:
        ended("job-2")
        ended("job-0")
        assert cloud.stepfunctions.answers == []
        ended("job-1")
        [answer] = cloud.stepfunctions.answers
        assert (answer["taskToken"], json.loads(answer["output"])) == (TOKEN, {"files": 3})
        assert TOKEN not in str(cloud.table.get("group#run", "group"))

    def test_a_failure_names_the_files_that_failed(self, cloud: Cloud) -> None:
        ended("job-2", failure("TimedOut", "It took too long."))
        ended("job-0", failure("InvalidInput", "It is empty."))
        ended("job-1")
        [answer] = cloud.stepfunctions.answers
        error = json.loads(answer["cause"])
        assert answer["error"] == error["code"] == "InvalidInput"
        expected = "2 of 3 files failed: clips/0.mp4 (InvalidInput), clips/2.mp4 (TimedOut). It is empty."
        assert error["message"] == expected

    def test_an_end_that_is_told_twice_counts_once(self, cloud: Cloud) -> None:
        for _ in range(3):
            ended("job-0")
            cloud.dynamodb.delete_item(TableName="state", Key={"pk": {"S": "job#job-0"}, "sk": {"S": "report"}})
        assert cloud.stepfunctions.answers == []

    def test_the_first_word_on_a_job_stands(self, cloud: Cloud) -> None:
        groups = Groups(cloud.table)
        groups.end("job-0", None)
        group = groups.end("job-0", failure("Cancelled", "It was stopped."))
        assert group is not None and (group.ended, group.failed) == ({"job-0"}, [])

    def test_after_a_crash_before_the_answer_it_is_given(self, cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
        ended("job-0")
        ended("job-1")
        cloud.stepfunctions.refusal = "InternalError"
        with pytest.raises(Exception, match="InternalError"):
            ended("job-2")
        cloud.stepfunctions.refusal = None
        ended("job-2")
        assert len(cloud.stepfunctions.answers) == 1

    def test_opened_and_joined_again_a_group_is_as_it_was(self, cloud: Cloud) -> None:
        ended("job-0")
        groups = Groups(cloud.table)
        groups.open("run", TOKEN, 3)
        groups.join("job-0", "run", "clips/0.mp4")
        ended("job-1")
        ended("job-2")
        assert len(cloud.stepfunctions.answers) == 1

    def test_five_hundred_failures_fit(self, cloud: Cloud) -> None:
        groups = Groups(cloud.table)
        groups.open("many", TOKEN, 500)
        for number in range(500):
            groups.join(f"many-{number}", "many", f"{'folder/' * 20}{number}.mp4")
            group = groups.end(f"many-{number}", failure("EngineFailed", "x" * 2000))
        assert group is not None and group.complete and len(group.failed) == 500

    def test_a_job_in_no_group_is_left_alone(self, cloud: Cloud) -> None:
        assert Groups(cloud.table).end("alone", None) is None

    def test_a_group_that_has_expired_is_not_made_again(self, cloud: Cloud) -> None:
        cloud.dynamodb.delete_item(TableName="state", Key={"pk": {"S": "group#run"}, "sk": {"S": "group"}})
        assert Groups(cloud.table).end("job-0", None) is None
        assert cloud.table.get("group#run", "group") is None
