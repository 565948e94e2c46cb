"""VAMS is answered once for a job, and for a call of an earlier release with a job for each file (decision 034)."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from cosmos_batch.contract.environment import ReportEnvironment
from cosmos_batch.contract.error import Error
from cosmos_batch.contract.result import Output, Result
from cosmos_batch.state import Group, Groups
from lambdas.handlers import report
from tests.lambdas.cloud import Cloud

TOKEN = "AQCcAAAAKgAAAAMAAAAAAAAAAXVhbXM="
FILES = "s3://assets/pipelines/cosmos-reason2-2b/job1/output/exec1/files/"


def ended(job_id: str, error: Error | None = None) -> Result:
    """Call `report` as the state machine does when a job has ended."""
    execution = {"id": f"arn:execution:{job_id}", "name": job_id, "startTime": "2026-11-12T00:00:00Z"}
    if error is not None:
        report.handler({"execution": execution, "error": {"Error": error.code, "Cause": error.cause()}}, None)
        return Result(job_id=job_id, error=error)
    output = Output(uri=f"s3://assets/{job_id}.json", size=9, content_type="application/json")
    result = Result(job_id=job_id, outputs=[output])
    report.handler({"execution": execution, "result": result.model_dump(mode="json")}, None)
    return result


def failure(code: str, message: str, retryable: bool = False) -> Error:
    return Error(code=code, message=message, remedy="Try another.", retryable=retryable)


def documents(cloud: Cloud) -> list[str]:
    """Return the keys of the objects among the results."""
    return [item["Key"] for item in cloud.s3.list_objects_v2(Bucket="assets", Prefix="pipelines/").get("Contents", [])]


def forget_report(cloud: Cloud, job_id: str) -> None:
    """Delete the row that says that the end was published, as if the function had crashed before it wrote it."""
    cloud.dynamodb.delete_item(TableName="state", Key={"pk": {"S": f"job#{job_id}"}, "sk": {"S": "report"}})


def group_of_files(cloud: Cloud, name: str, files: int) -> Group:
    """Write the row of a group with a job for each file, as the release before decision 034 wrote it."""
    row = {"id": name, "jobs": files, "attempt": 0, "files": FILES, "taskTokens": {TOKEN}}
    cloud.table.put_new(f"group#{name}", "group", {**row, "since": "2026-11-12T00:00:00+00:00"})
    group = Groups(cloud.table).get(name)
    assert group is not None
    return group


@pytest.fixture(autouse=True)
def group(cloud: Cloud, configure: Callable[..., None]) -> Group:
    configure(ReportEnvironment)
    group = group_of_files(cloud, "run", 3)
    for number in range(3):
        Groups(cloud.table).join(f"job-{number}", group, f"clips/{number}.mp4")
    return group


def test_the_last_end_answers(cloud: Cloud) -> None:
    ended("job-2")
    ended("job-0")
    assert cloud.stepfunctions.answers == []
    ended("job-1")
    [answer] = cloud.stepfunctions.answers
    assert (answer["taskToken"], json.loads(answer["output"])) == (TOKEN, {"files": 3})
    assert TOKEN not in str(cloud.table.get("group#run", "group"))


def test_the_result_of_a_single_file_is_the_answer(cloud: Cloud) -> None:
    groups = Groups(cloud.table)
    groups.join("single", groups.wait("single", TOKEN, FILES), "c.mp4")
    result = ended("single")
    [answer] = cloud.stepfunctions.answers
    assert Result.model_validate_json(answer["output"]) == result


def test_the_whole_error_of_a_single_file_is_the_answer(cloud: Cloud) -> None:
    groups = Groups(cloud.table)
    groups.join("single", groups.wait("single", TOKEN, FILES), "c.mp4")
    error = Error(code="InvalidInput", message="m" * 2000, remedy="r" * 2000)
    ended("single", error)
    [answer] = cloud.stepfunctions.answers
    assert Error.model_validate_json(answer["cause"]) == error


def test_files_that_failed_are_in_a_document_beside_the_results_of_the_others(cloud: Cloud) -> None:
    late, empty = failure("TimedOut", "It took too long.", retryable=True), failure("InvalidInput", "It is empty.")
    ended("job-2", late)
    ended("job-0", empty)
    ended("job-1")
    [answer] = cloud.stepfunctions.answers
    output = json.loads(answer["output"])
    assert (output["files"], output["failed"]) == (3, 2)
    [key] = documents(cloud)
    assert output["errors"] == f"s3://assets/{key}"
    assert key.removeprefix(FILES.removeprefix("s3://assets/")).startswith("CosmosBatchErrors_")
    document = json.loads(cloud.s3.get_object(Bucket="assets", Key=key)["Body"].read())
    assert (document["runId"], document["files"]) == ("run", 3)
    assert document["failed"] == [
        {"file": "clips/0.mp4", "jobId": "job-0", "error": empty.model_dump()},
        {"file": "clips/2.mp4", "jobId": "job-2", "error": late.model_dump()},
    ]


def test_where_every_file_failed_the_run_does(cloud: Cloud) -> None:
    ended("job-2", failure("TimedOut", "It took too long."))
    ended("job-0", failure("InvalidInput", "It is empty."))
    ended("job-1", failure("InvalidInput", "It is no video."))
    [answer] = cloud.stepfunctions.answers
    error = json.loads(answer["cause"])
    assert answer["error"] == error["code"] == "InvalidInput"
    expected = "3 of 3 files failed: clips/0.mp4 (InvalidInput), clips/1.mp4 (InvalidInput), clips/2.mp4 (TimedOut)."
    assert error["message"] == f"{expected} It is empty."
    assert documents(cloud) == []


def test_a_run_whose_errors_cannot_be_stored_fails_with_the_place_of_its_results(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without this, nothing would name the files that failed."""

    def forbidden(**_: Any) -> None:
        raise PermissionError

    monkeypatch.setattr(cloud.s3, "put_object", forbidden)
    ended("job-0", failure("InvalidInput", "It is empty."))
    ended("job-1")
    ended("job-2")
    [answer] = cloud.stepfunctions.answers
    error = Error.model_validate_json(answer["cause"])
    assert error.message == "1 of 3 files failed: clips/0.mp4 (InvalidInput). It is empty."
    assert FILES in error.remedy


def test_a_run_that_began_before_decision_033_is_answered_as_it_was(cloud: Cloud) -> None:
    """Rows of commit 0f4e7e0 have one token, no prefix and no attempt."""
    put = cloud.table.put_new
    put("group#old", "group", {"id": "old", "taskToken": "old-token", "jobs": 2, "since": "2026-11-01T00:00:00+00:00"})
    for number in range(2):
        put(f"job#old-{number}", "group", {"group": "old", "name": f"{number}.mp4"})
    ended("old-0", failure("InvalidInput", "It is empty."))
    ended("old-1")
    [answer] = cloud.stepfunctions.answers
    assert (answer["taskToken"], answer["error"]) == ("old-token", "InvalidInput")
    assert json.loads(answer["cause"])["message"] == "1 of 2 files failed: 0.mp4 (InvalidInput). It is empty."
    assert "old-token" not in str(cloud.table.get("group#old", "group"))


def test_an_end_that_is_reported_twice_counts_once(cloud: Cloud) -> None:
    for _ in range(3):
        ended("job-0")
        forget_report(cloud, "job-0")
    assert cloud.stepfunctions.answers == []


def test_the_first_end_of_a_job_is_final(cloud: Cloud) -> None:
    groups = Groups(cloud.table)
    groups.end("job-0", "{}")
    group = groups.end("job-0", failure("Cancelled", "It was stopped."))
    assert group is not None and (group.ended, group.failed) == ({"job-0"}, [])


def test_after_a_crash_before_the_answer_it_is_given(cloud: Cloud) -> None:
    ended("job-0")
    ended("job-1")
    cloud.stepfunctions.refusal = "InternalError"
    with pytest.raises(Exception, match="InternalError"):
        ended("job-2")
    cloud.stepfunctions.refusal = None
    ended("job-2")
    assert len(cloud.stepfunctions.answers) == 1


def test_a_token_that_is_added_during_the_answer_is_answered_too(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    send = cloud.stepfunctions.send_task_success

    def send_and_join(**answer: str) -> None:
        send(**answer)
        if answer["taskToken"] == TOKEN:
            Groups(cloud.table).wait("run", "late", FILES)

    monkeypatch.setattr(cloud.stepfunctions, "send_task_success", send_and_join)
    for number in range(3):
        ended(f"job-{number}")
    assert {answer["taskToken"] for answer in cloud.stepfunctions.answers} == {TOKEN, "late"}
    assert {answer["output"] for answer in cloud.stepfunctions.answers} == {'{"files": 3}'}


def test_five_hundred_failures_fit(cloud: Cloud) -> None:
    groups = Groups(cloud.table)
    many: Group | None = group_of_files(cloud, "many", 500)
    assert many is not None
    for number in range(500):
        job_id = f"many-{number}"
        groups.join(job_id, many, f"{'folder/' * 20}{number}.mp4")
        many = groups.end(job_id, failure("EngineFailed", "x" * 2000))
        assert many is not None
    assert many.complete and len(many.failed) == 500


def test_a_job_in_no_group_is_left_alone(cloud: Cloud) -> None:
    assert Groups(cloud.table).end("alone", "{}") is None


def test_a_group_that_has_expired_is_not_made_again(cloud: Cloud) -> None:
    cloud.dynamodb.delete_item(TableName="state", Key={"pk": {"S": "group#run"}, "sk": {"S": "group"}})
    assert Groups(cloud.table).end("job-0", "{}") is None
    assert cloud.table.get("group#run", "group") is None
