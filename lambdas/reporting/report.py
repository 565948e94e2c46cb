"""Report how a job ended: close its row, answer its callers, publish an event, and count it."""

import json

from cosmos_batch.contract import metrics
from cosmos_batch.contract.environment import ReportEnvironment
from cosmos_batch.contract.error import MESSAGE_LIMIT
from cosmos_batch.contract.result import Result
from cosmos_batch.contract.runs import EVENT_SOURCE
from cosmos_batch.state import Callbacks, JobRow, Jobs, Reports, ReservedKeys
from lambdas.clients import client, state_table, vams_client
from lambdas.log import log
from lambdas.metrics import measure
from lambdas.reporting.error_document import write_error_document
from lambdas.reporting.execution_end import ExecutionEnd
from lambdas.step_functions import send_failure, send_success
from lambdas.vams.answers import end_in_group

SUCCEEDED = "Cosmos Batch Job Succeeded"
FAILED = "Cosmos Batch Job Failed"


class NotDeliveredYet(Exception):  # noqa: N818 - it passes by itself
    """A worker is copying the job's result to its final keys; the end is reported when that is done."""


def report_once(end: ExecutionEnd, environment: ReportEnvironment) -> ExecutionEnd:
    """Report how a job ended, unless that was reported before, and return that end. Raises NotDeliveredYet."""
    table = state_table(environment.state_table)
    end = close_job(end, Jobs(table))
    if not Reports(table).published(end.job_id):
        report(end, environment)
    return end


def close_job(end: ExecutionEnd, jobs: Jobs) -> ExecutionEnd:
    """Close the row of a job whose execution failed, and return the end that its row has then. Raises NotDeliveredYet.

    A worker can commit a result until the row is closed. So the row is closed before anybody is told of a failure, and
    is read again afterwards: a worker may have committed between the first read and the write. A request that `plan`
    refused has no row.
    """
    if end.result.error is None:
        return end
    first_read = end_of_job(end, jobs.get(end.job_id))
    error = first_read.result.error
    if error is None:
        return first_read
    jobs.close(end.job_id, first_read.result, cancelled=error.code == "Cancelled")
    return end_of_job(end, jobs.get(end.job_id))


def end_of_job(end: ExecutionEnd, row: JobRow | None) -> ExecutionEnd:
    """Return the end that the job's row has, for an execution that failed; else the execution's own.

    A worker may have brought the job to an end while the execution failed for another reason, such as its deadline.
    Raises NotDeliveredYet.
    """
    if row is None:
        return end
    if row.result is None:
        return _with_reason_of_wait(end, row)
    if row.result.error is not None:
        return end.with_result(row.result)
    if row.state == "COMMITTED":
        raise NotDeliveredYet(end.job_id)
    # A result that could not be delivered leaves a failed row, whose error older versions did not store.
    return end if row.state == "FAILED" else end.with_result(row.result)


def _with_reason_of_wait(end: ExecutionEnd, row: JobRow) -> ExecutionEnd:
    """Add to a passed deadline that the job waited for a server that was busy or could not be reached."""
    error = end.result.error
    if error is None or error.code != "TimedOut" or row.waiting is None:
        return end
    message = f"{error.message} It waited for a server: {row.waiting.reason}"[:MESSAGE_LIMIT]
    remedy = "See to it that the server is there and has room, and start the job again."
    error = error.model_copy(update={"message": message, "remedy": remedy})
    return end.with_result(Result(job_id=end.job_id, error=error))


def report(end: ExecutionEnd, environment: ReportEnvironment) -> None:
    """Report an end. After a crash between two steps all of them are taken again, and each allows that."""
    table = state_table(environment.state_table)
    jobs = Jobs(table)
    answer_callback(end, Callbacks(table), environment.callback_role_arn)
    outcome = end.result.error or end.result.model_dump_json(exclude_none=True)
    end_in_group(end.job_id, outcome, table, environment.callback_role_arn)
    row = jobs.get(end.job_id)
    if row is not None:
        jobs.stamp(end.job_id, "reported")
    if end.result.error is not None:
        write_error_document(end.job_id, end.result.error, end.request, end.started_at, ReservedKeys(table))
    # Nothing that calls AWS may stand between these steps: each fault there would publish and count the end once more.
    publish(end)
    measure_end(end, row)
    Reports(table).note(end.job_id)
    code = None if end.result.error is None else end.result.error.code
    log("reported", jobId=end.job_id, succeeded=end.result.succeeded, code=code)


def answer_callback(end: ExecutionEnd, callbacks: Callbacks, role_arn: str | None) -> None:
    """Answer the task token that the request came with, if it had one that is not answered yet."""
    token = callbacks.waiting(end.job_id)
    if token is None:
        return
    stepfunctions = vams_client("stepfunctions", role_arn)
    if end.result.error is None:
        send_success(end.job_id, token, end.result.model_dump_json(exclude_none=True), stepfunctions)
    else:
        send_failure(end.job_id, token, end.result.error, stepfunctions)
    callbacks.answered(end.job_id)


def measure_end(end: ExecutionEnd, row: JobRow | None) -> None:
    """Count the job, and measure its seconds by phase.

    A refused request has no row, and may name a pipeline that does not exist: it counts under `UNKNOWN`.
    """
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


def publish(end: ExecutionEnd) -> None:
    """Put one event on the account's default bus."""
    entry = {
        "Source": EVENT_SOURCE,
        "DetailType": SUCCEEDED if end.result.succeeded else FAILED,
        "Detail": json.dumps(end.result.model_dump(mode="json", exclude_none=True)),
    }
    answer = client("events").put_events(Entries=[entry])
    if answer["FailedEntryCount"]:
        raise RuntimeError(f"EventBridge refused the event: {answer['Entries'][0].get('ErrorCode')}")
