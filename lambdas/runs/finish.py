"""Finish an execution of a run: sum up its shards, note its state, answer its caller, and publish an event."""

import json
from datetime import UTC, datetime
from typing import Any

from cosmos_batch.contract.environment import FinishRunEnvironment
from cosmos_batch.contract.error import MESSAGE_LIMIT, Error
from cosmos_batch.contract.runs import EVENT_SOURCE, RUN_ENDED, RunState, RunSummary
from cosmos_batch.state import Callbacks, RunRow, Runs, Table
from lambdas.clients import client, vams_client
from lambdas.log import log
from lambdas.reporting.execution_end import error_of
from lambdas.runs.collect import collect_shard, unfinished
from lambdas.runs.duration_histogram import added, quantiles
from lambdas.runs.objects import RunObjects
from lambdas.runs.run_input import is_run, run_id_of
from lambdas.step_functions import send_failure, send_success
from lambdas.vams.answers import end_in_group
from lambdas.vams.run_ends import end_run, is_awaited

_SUMMED = (
    *("succeeded", "failed", "cancelled", "reused", "prompt_tokens", "completion_tokens", "gpu_seconds", "dollars"),
)


def finish_execution(event: dict[str, Any], table: Table, environment: FinishRunEnvironment) -> dict[str, Any]:
    """Finish the execution of `{"execution": {..., "input"}}`, with `error` if it could not go on.

    The answer has `error` and `cause` where the execution is to fail: its run has failed, or there is none.
    """
    execution, fault = event["execution"], event.get("error")
    error = None if fault is None else error_of(fault.get("Error"), fault.get("Cause"))
    run = run_id_of(execution["input"], execution["name"])
    summary = finish_run(run, execution["id"], error, table, environment)
    if summary is None and error is not None:  # it was refused before the run had a row
        _fail_callers(run, error, table, environment.callback_role_arn)
    if summary is not None and summary.state == "FAILED":
        error = error or _error_of(summary)
    return {
        "error": None if error is None else error.code,
        "cause": None if error is None else error.cause(),
        "summary": None if summary is None else summary.model_dump(mode="json", exclude_none=True),
    }


def finish_stopped(event: dict[str, Any], table: Table, environment: FinishRunEnvironment) -> None:
    """Finish a run of whose execution EventBridge tells that it was stopped, timed out or failed.

    The execution of a failed run was finished before it ended, unless `finish_run` itself has failed. So it is looked
    at only where VAMS still waits for the answer. Executions of other things than runs are ignored.
    """
    detail = event["detail"]
    request = json.loads(detail.get("input") or "null")
    if not is_run(request):
        return
    runs, run, has_failed = Runs(table), run_id_of(request, detail["name"]), detail["status"] == "FAILED"
    if has_failed and not is_awaited(run, table):
        return
    names = {"ABORTED": "Aborted", "FAILED": detail.get("error")}
    error = error_of(names.get(detail["status"], "States.Timeout"), detail.get("cause"))
    row = runs.get(run)
    if row is None:
        _fail_callers(run, error, table, environment.callback_role_arn)
        return
    if row.execution_arn != detail["executionArn"]:
        return
    if row.ended_at is None and not has_failed:  # otherwise `finish_run` has noted the end, and may have died then
        runs.cancel(run, error.message)
    finish_run(run, detail["executionArn"], error, table, environment)


def finish_run(
    run: str, execution_arn: str, error: Error | None, table: Table, environment: FinishRunEnvironment
) -> RunSummary | None:
    """Finish a run's execution, which ended with `error` or without one. Every step can be repeated.

    Returns the summary; None where the run has no row, or where a later execution goes on with it.
    """
    runs, bucket = Runs(table), environment.state_bucket
    row = runs.get(run)
    if row is None or row.execution_arn != execution_arn:
        return None
    if row.state in ("RUNNING", "STARTING") and error is not None:
        row = runs.fail(run, f"{error.message} {error.remedy}")  # first, so that a shard fed this moment sees it
    if row.state in ("CANCELLED", "FAILED"):
        # An execution that ends early is no fault of its items, so all that have not ended may be asked again.
        reason = None if error is None else error.model_copy(update={"retryable": True})
        for shard in unfinished(run, runs):
            collect_shard(run, shard.shard, reason, table, bucket, execution_arn)
    summary = summary_of(row, runs)
    latest = runs.get(run)
    if latest is None or latest.execution_arn != execution_arn:  # the sums take long: another may go on meanwhile
        return None
    RunObjects(bucket, run).write_summary(summary.model_dump_json(exclude_none=True))
    if not runs.end(run, execution_arn, summary.state, summary.reason):
        return None
    why_not = None if summary.state == "SUCCEEDED" else _error_of(summary)
    if summary.state != "HELD":
        _answer_callback(summary, why_not, Callbacks(table), environment.callback_role_arn)
    end_run(summary, why_not, bucket, table, environment.callback_role_arn)
    _publish(summary)
    log("run ended", run=run, state=summary.state, succeeded=summary.succeeded, failed=summary.failed)
    return summary


def summary_of(row: RunRow, runs: Runs) -> RunSummary:
    """Return the sums over a run's shards, one after another, and the state in which it is now."""
    sums: dict[str, float] = dict.fromkeys(_SUMMED, 0)
    errors: dict[str, int] = {}
    seconds: dict[str, int] = {}
    uncollected = 0
    for shard in runs.shards.of_run(row.id):
        uncollected += shard.complete and shard.state != "ENDED"
        sums = {name: number + getattr(shard, name) for name, number in sums.items()}
        errors, seconds = added(errors, shard.errors), added(seconds, shard.seconds)
    left = row.items - int(sums["succeeded"] + sums["failed"] + sums["cancelled"])
    state, reason = _state_of(row, left, int(sums["cancelled"]), uncollected)
    return RunSummary(
        id=row.id,
        state=state,
        items=row.items,
        succeeded=int(sums["succeeded"]),
        failed=int(sums["failed"]),
        cancelled=int(sums["cancelled"]) + (left if state == "CANCELLED" else 0),
        reused=int(sums["reused"]),
        errors_by_code=errors,
        prompt_tokens=int(sums["prompt_tokens"]),
        completion_tokens=int(sums["completion_tokens"]),
        gpu_seconds=round(float(sums["gpu_seconds"]), 6),
        dollars=round(float(sums["dollars"]), 6),
        seconds_quantiles=quantiles(seconds),
        started_at=datetime.fromisoformat(row.started_at),
        ended_at=datetime.now(UTC),
        reason=reason,
    )


def _state_of(row: RunRow, left: int, cancelled: int, uncollected: int) -> tuple[RunState, str | None]:
    """Return the state of a run, and why it is not SUCCEEDED.

    `left` and `cancelled` are numbers of its items, `uncollected` that of its complete shards without written results.
    """
    if not left and not cancelled and row.state != "FAILED":  # if it was held or cancelled, that came too late
        if not uncollected:
            return "SUCCEEDED", None
        missing = f"{uncollected} of its shards have no results yet"
        return "FAILED", f"{missing}: see the log of `collect`, and resume the run."
    if row.state in ("CANCELLED", "FAILED", "HELD"):
        return row.state, row.reason
    if not left:
        return "FAILED", f"{cancelled} of its items were cancelled before it went on: resume the run once more."
    return "FAILED", f"{left} of its items were never fed: see the log of its execution, and resume the run."


def _answer_callback(summary: RunSummary, error: Error | None, callbacks: Callbacks, role_arn: str | None) -> None:
    """Answer the task token that the run came with, if it had one that is not answered yet."""
    token = callbacks.waiting(summary.id)
    if token is None:
        return
    stepfunctions = vams_client("stepfunctions", role_arn)
    if error is None:
        send_success(summary.id, token, summary.model_dump_json(exclude_none=True), stepfunctions)
    else:
        send_failure(summary.id, token, error, stepfunctions)
    callbacks.answered(summary.id)


def _fail_callers(run: str, error: Error, table: Table, role_arn: str | None) -> None:
    """Answer the callers of a run that has no row, because its execution ended before it was prepared."""
    callbacks = Callbacks(table)
    token = callbacks.waiting(run)
    if token is not None:
        send_failure(run, token, error, vams_client("stepfunctions", role_arn))
        callbacks.answered(run)
    end_in_group(run, error, table, role_arn)


def _error_of(summary: RunSummary) -> Error:
    """Return the error of a run that was cancelled, was held or has failed."""
    return Error(
        code="Cancelled" if summary.state == "CANCELLED" else "Internal",
        message=f"The run {summary.id} is {summary.state}: {summary.reason or 'no reason was given'}"[:MESSAGE_LIMIT],
        remedy=f"Go on with `cosmos-batch runs resume {summary.id}`: what is done already costs nothing.",
        retryable=summary.state != "CANCELLED",
    )


def _publish(summary: RunSummary) -> None:
    """Put one event on the account's default bus."""
    entry = {"Source": EVENT_SOURCE, "DetailType": RUN_ENDED, "Detail": summary.model_dump_json(exclude_none=True)}
    answer = client("events").put_events(Entries=[entry])
    if answer["FailedEntryCount"]:
        raise RuntimeError(f"EventBridge refused the event: {json.dumps(answer['Entries'][0].get('ErrorCode'))}")
