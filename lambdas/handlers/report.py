"""`report`: an execution has ended, however; tell who waits for it, and the world.

It is called by the state machine at its end. Executions that failed, timed out or were stopped come from EventBridge by
way of SQS as well: a stopped execution takes no further step, and this is the only word of it. The event also follows
an ordinary failure; what was reported before is not reported again.
"""

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import Any, Self

from cosmos_batch.contract import metrics
from cosmos_batch.contract.environment import ReportEnvironment
from cosmos_batch.contract.error import MESSAGE_LIMIT
from cosmos_batch.contract.result import Result
from cosmos_batch.state import Callbacks, JobRow, Jobs, Reports, ReservedKeys, Table
from lambdas.clients import client, state_table
from lambdas.log import log
from lambdas.metrics import measure
from lambdas.reporting.error_document import write_error_document
from lambdas.reporting.execution_error import error_of
from lambdas.sqs_batches import Record, each_record
from lambdas.task_tokens import fail, succeed
from lambdas.vams.answers import end_in_group
from lambdas.vams_client import vams_client

EVENT_SOURCE = "cosmos.batch"
SUCCEEDED = "Cosmos Batch Job Succeeded"
FAILED = "Cosmos Batch Job Failed"


@cache
def environment() -> ReportEnvironment:
    """Of this function."""
    return ReportEnvironment.read()


@dataclass(frozen=True)
class End:
    """How an execution ended."""

    job_id: str
    result: Result
    started_at: datetime
    request: Any = None  # the execution's input; None where it is not told

    @classmethod
    def read(cls, event: dict[str, Any]) -> Self:
        """From the state machine (`execution` with `result` or `error`) or from EventBridge (`detail`)."""
        return cls._of_status(event["detail"]) if "detail" in event else cls._of_state_machine(event)

    @classmethod
    def _of_status(cls, detail: dict[str, Any]) -> Self:
        named = {"ABORTED": "Aborted", "TIMED_OUT": "States.Timeout"}.get(detail["status"], detail.get("error"))
        result = Result(job_id=detail["name"], error=error_of(named, detail.get("cause")))
        # EventBridge leaves a large input out.
        request = json.loads(detail["input"]) if detail.get("input") else None
        return cls(detail["name"], result, datetime.fromtimestamp(detail["startDate"] / 1000, UTC), request)

    @classmethod
    def _of_state_machine(cls, event: dict[str, Any]) -> Self:
        execution = event["execution"]
        started_at = datetime.fromisoformat(execution["startTime"]).astimezone(UTC)
        if "error" in event:
            error = error_of(event["error"].get("Error"), event["error"].get("Cause"))
            result = Result(job_id=execution["name"], error=error)
        else:
            result = Result.model_validate(event["result"])
        return cls(execution["name"], result, started_at, execution.get("input"))

    def with_result(self, result: Result) -> Self:
        """The same execution, whose job ended otherwise than it did itself."""
        return replace(self, result=result)


class NotDeliveredYet(Exception):  # noqa: N818 - it passes by itself
    """A worker is bringing the job's result to its place. The end is told when it lies there."""


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """The end of one execution, from the state machine, or a batch of SQS records.

    The state machine is given `error` and `cause`, with which it fails if this was a failure, and else `result`.
    """
    if "Records" in event:
        return each_record(event, take, context)
    result = report_once(End.read(event)).result
    error = result.error
    return {
        "error": None if error is None else error.code,
        "cause": None if error is None else error.cause(),
        "result": None if error is not None else result.model_dump(mode="json"),
    }


def take(record: Record) -> None:
    """One execution's change of status, as EventBridge sent it."""
    report_once(End.read(json.loads(record["body"])))


def report_once(end: End) -> End:
    """Report how a job ended, unless all of it was reported before. Returns that end. Raises NotDeliveredYet."""
    table = state_table(environment().state_table)
    end = end_of_job(end, Jobs(table).get(end.job_id))
    if not Reports(table).published(end.job_id):
        report(end, table)
    return end


def end_of_job(end: End, row: JobRow | None) -> End:
    """The end that the job's row knows, if it knows one; else that of the execution. Raises NotDeliveredYet."""
    if end.result.error is None or row is None:
        return end
    if row.result is None:
        return _with_what_was_waited_for(end, row)
    if row.result.error is not None:
        return end.with_result(row.result)
    if row.state == "COMMITTED":
        raise NotDeliveredYet(end.job_id)
    # A result that could not be delivered leaves a failed row, whose error older versions did not keep.
    return end if row.state == "FAILED" else end.with_result(row.result)


def _with_what_was_waited_for(end: End, row: JobRow) -> End:
    """A deadline that passed while the job waited for a server that was busy or away says so."""
    error = end.result.error
    if error is None or error.code != "TimedOut" or row.waiting is None:
        return end
    message = f"{error.message} It waited for a server: {row.waiting.reason}"[:MESSAGE_LIMIT]
    remedy = "See to it that the server is there and has room, and start the job again."
    told = error.model_copy(update={"message": message, "remedy": remedy})
    return end.with_result(Result(job_id=end.job_id, error=told))


def report(end: End, table: Table) -> None:
    """Each step may be taken again: after a crash between two of them, all are."""
    answer_callback(end, Callbacks(table))
    end_in_group(end.result, table, environment().callback_role_arn)
    close_job(end, Jobs(table))
    publish(end)
    if end.result.error is not None:
        write_error_document(end.job_id, end.result.error, end.request, end.started_at, ReservedKeys(table))
    measure_end(end, Jobs(table).get(end.job_id))
    Reports(table).note(end.job_id)
    code = None if end.result.error is None else end.result.error.code
    log("reported", jobId=end.job_id, succeeded=end.result.succeeded, code=code)


def answer_callback(end: End, callbacks: Callbacks) -> None:
    """Answer the one who waits, once."""
    token = callbacks.waiting(end.job_id)
    if token is None:
        return
    states = vams_client("stepfunctions", environment().callback_role_arn)
    if end.result.error is None:
        succeed(end.job_id, token, end.result.model_dump_json(exclude_none=True), states)
    else:
        fail(end.job_id, token, end.result.error, states)
    callbacks.answered(end.job_id)


def close_job(end: End, jobs: Jobs) -> None:
    """No worker may win any more what ended in an error. A refused request never had a row."""
    if jobs.get(end.job_id) is None:
        return
    if end.result.error is not None:
        jobs.close(end.job_id, end.result, cancelled=end.result.error.code == "Cancelled")
    jobs.stamp(end.job_id, "reported")


def measure_end(end: End, row: JobRow | None) -> None:
    """Count the job, and its seconds by phase. A refused request has no row, and perhaps no pipeline that is ours."""
    pipeline = metrics.UNKNOWN if row is None else row.pipeline
    error = end.result.error
    if error is not None:
        measure(pipeline, {metrics.FAILED: 1})
        measure(pipeline, {metrics.FAILED: 1}, code=error.code)
        return
    measure(pipeline, {metrics.SUCCEEDED: 1})
    for phase in metrics.PHASES:
        if phase in end.result.timings:
            measure(pipeline, {metrics.PHASE_SECONDS: end.result.timings[phase]}, unit="Seconds", phase=phase)


def publish(end: End) -> None:
    """One event on the default bus."""
    entry = {
        "Source": EVENT_SOURCE,
        "DetailType": SUCCEEDED if end.result.succeeded else FAILED,
        "Detail": json.dumps(end.result.model_dump(mode="json", exclude_none=True)),
    }
    answer = client("events").put_events(Entries=[entry])
    if answer["FailedEntryCount"]:
        raise RuntimeError(f"EventBridge refused the event: {answer['Entries'][0].get('ErrorCode')}")
