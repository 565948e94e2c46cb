"""`report` answers a job's callers and publishes its end once, however its execution ended."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from cosmos_batch.contract.environment import ReportEnvironment
from cosmos_batch.contract.error import Error, Failure, too_late
from cosmos_batch.contract.result import Output, Result
from cosmos_batch.state import Attempt, Callbacks, ConditionFailed, Jobs, Waiting
from lambdas.handlers.report import handler
from lambdas.reporting.report import NotDeliveredYet
from tests.lambdas.cloud import Cloud, event, sqs_batch
from tests.support.jobs import make_job

EXECUTION = {"id": "arn:execution:job-1", "name": "job-1", "startTime": "2026-11-12T00:00:00Z"}
RESULT = Result(job_id="job-1", outputs=[Output(uri="s3://assets/clip.json", size=9, content_type="application/json")])
ERROR = Error(code="EngineFailed", message="It died.", remedy="Try another clip. " * 30)


@pytest.fixture(autouse=True)
def _environment(configure: Callable[..., None]) -> None:
    configure(ReportEnvironment)


@pytest.fixture
def jobs(cloud: Cloud) -> Jobs:
    """Provide the rows of jobs, with one planned job and a task token that waits for it."""
    jobs = Jobs(cloud.table)
    jobs.create(make_job("job-1"))
    Callbacks(cloud.table).keep("job-1", "token-of-vams")
    return jobs


def succeeded() -> dict[str, Any]:
    return handler({"execution": EXECUTION, "result": RESULT.model_dump(mode="json")}, None)


def failed(name: str, cause: str | None) -> dict[str, Any]:
    return handler({"execution": EXECUTION, "error": {"Error": name, "Cause": cause}}, None)


def changed(*events: dict[str, Any]) -> dict[str, Any]:
    """Send changes of an execution's status to the function, as EventBridge does by way of SQS."""
    return handler(sqs_batch(*events), None)


def test_a_success_is_reported(cloud: Cloud, jobs: Jobs) -> None:
    assert succeeded() == {"error": None, "cause": None, "result": RESULT.model_dump(mode="json")}
    [answer] = cloud.stepfunctions.answers
    assert answer["taskToken"] == "token-of-vams"
    assert Result.model_validate_json(answer["output"]) == RESULT
    [entry] = cloud.events.entries
    assert (entry["Source"], entry["DetailType"]) == ("cosmos.batch", "Cosmos Batch Job Succeeded")
    assert Result.model_validate_json(entry["Detail"]) == RESULT
    row = jobs.get("job-1")
    assert row is not None and "reported" in row.stages and row.state == "PLANNED"


def test_a_result_of_a_newer_worker_is_reported_without_what_is_unknown(cloud: Cloud, jobs: Jobs) -> None:
    newer = {**RESULT.model_dump(mode="json"), "fromTheFuture": True}
    assert handler({"execution": EXECUTION, "result": newer}, None)["result"] == RESULT.model_dump(mode="json")


def test_a_failure_is_reported_to_all_callers(cloud: Cloud, jobs: Jobs) -> None:
    answer = failed("EngineFailed", ERROR.cause())
    assert answer["error"] == "EngineFailed"
    assert Error.model_validate_json(answer["cause"]) == ERROR
    [failure] = cloud.stepfunctions.answers
    assert (failure["taskToken"], failure["error"]) == ("token-of-vams", "EngineFailed")
    assert Error.model_validate_json(failure["cause"]) == ERROR, "VAMS is told the whole"
    [entry] = cloud.events.entries
    assert entry["DetailType"] == "Cosmos Batch Job Failed"
    assert Result.model_validate_json(entry["Detail"]).error == ERROR


def test_the_status_change_after_an_ordinary_failure_changes_nothing(cloud: Cloud, jobs: Jobs) -> None:
    failed("EngineFailed", ERROR.cause())
    status = event("step_functions_aborted")
    status["detail"].update(status="FAILED", error="EngineFailed", cause=ERROR.cause())
    assert changed(status, status) == {"batchItemFailures": []}
    assert len(cloud.stepfunctions.answers) == len(cloud.events.entries) == 1


@pytest.mark.parametrize(
    ("shape", "code", "state"),
    [
        ("step_functions_aborted", "Cancelled", "CANCELLED"),
        ("step_functions_timed_out", "TimedOut", "FAILED"),
    ],
)
def test_a_stopped_execution_is_reported_too(cloud: Cloud, jobs: Jobs, shape: str, code: str, state: str) -> None:
    jobs.open_attempt("job-1", Attempt(id="a", worker="w", solo=False))
    changed(event(shape))
    [answer] = cloud.stepfunctions.answers
    assert answer["error"] == code
    row = jobs.get("job-1")
    assert row is not None and row.state == state
    assert row.result is not None and row.result.error is not None and row.result.error.code == code


@pytest.mark.parametrize("name", ["States.Timeout", "States.HeartbeatTimeout"])
def test_a_wait_until_the_deadline_has_timed_out(cloud: Cloud, jobs: Jobs, name: str) -> None:
    assert Error.model_validate_json(failed(name, None)["cause"]) == too_late()


def test_the_error_in_a_lambdas_envelope_is_found(cloud: Cloud) -> None:
    failure = Failure("InvalidInput", "It is empty.", "Upload it again.")
    envelope = {"errorMessage": str(failure), "errorType": "Failure", "stackTrace": ["  File ..."]}
    answer = failed("Failure", json.dumps(envelope))
    assert Error.model_validate_json(answer["cause"]) == failure.error


@pytest.mark.parametrize(
    ("name", "cause", "retryable"),
    [
        ("Lambda.Unknown", "The cause could not be determined", False),
        ("KeyError", json.dumps({"errorMessage": "'name'", "errorType": "KeyError"}), False),
        ("States.DataLimitExceeded", "[]", False),
        ("SQS.AmazonSQSException", "It is denied.", True),
        ("SQS.SdkClientException", None, True),
    ],
)
def test_anything_else_is_ours_and_keeps_its_text(cloud: Cloud, name: str, cause: str | None, retryable: bool) -> None:
    answer = failed(name, cause)
    assert answer["error"] == "Internal"
    error = Error.model_validate_json(answer["cause"])
    assert name in error.message and (cause or "") in error.message
    assert error.retryable == retryable


def test_a_refused_request_has_no_row_and_is_published_once(cloud: Cloud) -> None:
    failed("Failure", None)
    failed("Failure", None)
    assert len(cloud.events.entries) == 1
    assert Jobs(cloud.table).get("job-1") is None


@pytest.mark.parametrize("refusal", ["TaskTimedOut", "TaskDoesNotExist", "InvalidToken"])
def test_an_outdated_token_does_not_prevent_the_other_reports(cloud: Cloud, jobs: Jobs, refusal: str) -> None:
    cloud.stepfunctions.refusal = refusal
    succeeded()
    assert Callbacks(cloud.table).waiting("job-1") is None
    assert len(cloud.events.entries) == 1


def test_after_a_crash_everything_that_is_missing_is_done(cloud: Cloud, jobs: Jobs) -> None:
    cloud.stepfunctions.refusal = "ThrottlingException"
    with pytest.raises(Exception, match="ThrottlingException"):
        succeeded()
    assert cloud.events.entries == []
    cloud.stepfunctions.refusal = None
    succeeded()
    succeeded()
    assert len(cloud.stepfunctions.answers) == len(cloud.events.entries) == 1


def test_an_execution_that_was_stopped_with_our_own_error_ends_with_that_error(cloud: Cloud, jobs: Jobs) -> None:
    stopped, cancelled = event("step_functions_aborted"), ERROR.model_copy(update={"code": "Cancelled"})
    stopped["detail"]["cause"] = cancelled.cause()
    changed(stopped)
    [answer] = cloud.stepfunctions.answers
    assert Error.model_validate_json(answer["cause"]) == cancelled


def test_only_a_change_of_status_that_could_not_be_reported_is_retried(cloud: Cloud, jobs: Jobs) -> None:
    cloud.stepfunctions.refusal = "ThrottlingException"
    told_nobody = event("step_functions_timed_out")
    told_nobody["detail"]["name"] = "job-nobody-waits-for"
    assert changed(told_nobody, event("step_functions_aborted")) == {"batchItemFailures": [{"itemIdentifier": "m1"}]}
    cloud.stepfunctions.refusal = None
    assert changed(event("step_functions_aborted")) == {"batchItemFailures": []}
    [answer] = cloud.stepfunctions.answers
    assert answer["error"] == "Cancelled"


def test_no_token_is_logged_or_published(cloud: Cloud, jobs: Jobs, lines: Callable[[], str]) -> None:
    succeeded()
    assert "token-of-vams" not in lines() + json.dumps(cloud.events.entries)


def run_to(jobs: Jobs, result: Result) -> None:
    """Record the result that a worker has decided for the job."""
    jobs.open_attempt("job-1", Attempt(id="a", worker="w", solo=False))
    jobs.commit("job-1", "a", result)


def failed_as(name: str, cause: str | None = None) -> dict[str, Any]:
    """Return the event of an execution that failed for another reason than its job."""
    status = event("step_functions_aborted")
    status["detail"].update(status="FAILED", error=name, cause=cause)
    return dict(status)


THROTTLED = failed_as("Lambda.TooManyRequestsException", "Rate Exceeded.")
ENDS = [THROTTLED, event("step_functions_aborted"), event("step_functions_timed_out")]


@pytest.mark.parametrize("end", ENDS, ids=["throttled", "stopped", "timed out"])
def test_a_job_that_succeeded_is_reported_as_a_success_however_its_execution_ended(
    cloud: Cloud, jobs: Jobs, end: dict[str, Any]
) -> None:
    run_to(jobs, RESULT)
    jobs.finish("job-1", None)
    assert changed(end) == {"batchItemFailures": []}
    [answer] = cloud.stepfunctions.answers
    assert Result.model_validate_json(answer["output"]) == RESULT
    [entry] = cloud.events.entries
    assert entry["DetailType"] == "Cosmos Batch Job Succeeded"
    row = jobs.get("job-1")
    assert row is not None and (row.state, row.result) == ("SUCCEEDED", RESULT)


def test_a_job_that_succeeded_at_its_deadline_ends_its_execution_with_its_result(cloud: Cloud, jobs: Jobs) -> None:
    run_to(jobs, RESULT)
    jobs.finish("job-1", None)
    assert failed("States.Timeout", None) == {"error": None, "cause": None, "result": RESULT.model_dump(mode="json")}
    assert "output" in cloud.stepfunctions.answers[0]


def test_a_result_that_is_being_written_is_reported_once_it_is_written(cloud: Cloud, jobs: Jobs) -> None:
    run_to(jobs, RESULT)
    assert changed(THROTTLED) == {"batchItemFailures": [{"itemIdentifier": "m0"}]}
    with pytest.raises(NotDeliveredYet):
        failed("States.Timeout", None)
    assert cloud.stepfunctions.answers == cloud.events.entries == []
    jobs.finish("job-1", None)
    assert changed(THROTTLED) == {"batchItemFailures": []}
    assert "output" in cloud.stepfunctions.answers[0]


def test_a_result_committed_just_before_the_row_is_closed_is_reported(
    cloud: Cloud, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker commits after `report` has read the row, and before it closes the row."""
    close = Jobs.close

    def commit_and_close(self: Jobs, *arguments: Any, **options: Any) -> None:
        run_to(jobs, RESULT)
        close(self, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(Jobs, "close", commit_and_close)
        assert changed(THROTTLED) == {"batchItemFailures": [{"itemIdentifier": "m0"}]}
    assert cloud.stepfunctions.answers == cloud.events.entries == []
    jobs.finish("job-1", None)
    assert changed(THROTTLED) == {"batchItemFailures": []}
    [answer] = cloud.stepfunctions.answers
    assert Result.model_validate_json(answer["output"]) == RESULT
    [entry] = cloud.events.entries
    assert entry["DetailType"] == "Cosmos Batch Job Succeeded"


def test_no_worker_commits_a_result_while_a_failure_is_reported(
    cloud: Cloud, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.open_attempt("job-1", Attempt(id="a", worker="w", solo=False))
    refused = []

    def commit_meanwhile(**answer: str) -> None:
        with pytest.raises(ConditionFailed):
            jobs.commit("job-1", "a", RESULT)
        refused.append(answer["error"])

    monkeypatch.setattr(cloud.stepfunctions, "send_task_failure", commit_meanwhile)
    assert changed(THROTTLED) == {"batchItemFailures": []}
    assert refused == ["Internal"]
    row = jobs.get("job-1")
    assert row is not None and row.state == "FAILED"


def test_a_failure_keeps_its_error_when_it_is_reported_again(cloud: Cloud, jobs: Jobs) -> None:
    """Step Functions throttles the first answer, and then the execution times out; the row keeps the first error."""
    cloud.stepfunctions.refusal = "ThrottlingException"
    changed(failed_as("EngineFailed", ERROR.cause()))
    cloud.stepfunctions.refusal = None
    changed(event("step_functions_timed_out"))
    assert [answer["error"] for answer in cloud.stepfunctions.answers] == ["EngineFailed"]


def test_a_result_that_could_not_be_delivered_is_reported_as_an_error(cloud: Cloud, jobs: Jobs) -> None:
    run_to(jobs, RESULT)
    jobs.finish("job-1", ERROR)  # by `dead_letter`
    changed(THROTTLED)
    assert cloud.stepfunctions.answers[0]["error"] == ERROR.code


def test_a_row_of_an_older_version_that_kept_no_such_error_leaves_the_executions_own(cloud: Cloud, jobs: Jobs) -> None:
    run_to(jobs, RESULT)
    cloud.table.update("job#job-1", "job", "SET #state = :failed", {"failed": "FAILED"})
    changed(failed_as("Internal", ERROR.cause()))
    assert cloud.stepfunctions.answers[0]["error"] == ERROR.code


@pytest.mark.parametrize("told_by_its_worker", [True, False])
def test_a_failed_job_is_reported_with_its_own_error(cloud: Cloud, jobs: Jobs, told_by_its_worker: bool) -> None:
    run_to(jobs, Result(job_id="job-1", error=ERROR))
    if told_by_its_worker:
        jobs.finish("job-1", ERROR)
    changed(THROTTLED)
    [answer] = cloud.stepfunctions.answers
    assert answer["error"] == "EngineFailed"


def measured(lines: Callable[[], str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines().splitlines() if "_aws" in line]


def test_an_end_is_counted_once_with_its_phases(cloud: Cloud, jobs: Jobs, lines: Callable[[], str]) -> None:
    result = RESULT.model_copy(update={"timings": {"total": 9.5, "infer": 2.0, "other": 1.0}})
    for _ in range(2):
        handler({"execution": EXECUTION, "result": result.model_dump(mode="json")}, None)
    metrics = measured(lines)
    assert [metric["Succeeded"] for metric in metrics if "Succeeded" in metric] == [1]
    phases = {metric["phase"]: metric["PhaseSeconds"] for metric in metrics if "PhaseSeconds" in metric}
    assert phases == {"total": 9.5, "infer": 2.0}
    assert all(metric["_aws"]["CloudWatchMetrics"][0]["Dimensions"][0][0] == "pipeline" for metric in metrics)


def test_a_failure_is_counted_for_the_pipeline_and_for_its_code(jobs: Jobs, lines: Callable[[], str]) -> None:
    failed("EngineFailed", ERROR.model_dump_json())
    metrics = [metric for metric in measured(lines) if "Failed" in metric]
    assert [metric["_aws"]["CloudWatchMetrics"][0]["Dimensions"] for metric in metrics] == [
        [["pipeline"]],
        [["pipeline", "code"]],
    ]
    assert metrics[1]["code"] == "EngineFailed"


def test_a_deadline_that_passed_in_wait_for_a_server_says_so(cloud: Cloud, jobs: Jobs) -> None:
    jobs.open_attempt("job-1", Attempt(id="a", worker="w", solo=False))
    waiting = Waiting(reason="https://nim is busy (HTTP 503).", until="2026-11-12T00:00:00+00:00")
    jobs.pause("job-1", "a", waiting, interrupted=False)
    failed("States.Timeout", None)
    [answer] = cloud.stepfunctions.answers
    cause = json.loads(answer["cause"])
    assert cause["code"] == "TimedOut" and "It waited for a server: https://nim is busy" in cause["message"]
    assert "server is there" in cause["remedy"]
