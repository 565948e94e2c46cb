"""`report`: tell the caller of a job, and everybody else concerned, how its execution ended.

The state machine calls it at its end. Executions that failed, timed out or were stopped also come from EventBridge
through SQS: a stopped execution runs no further state, so that event is the only notice of it. Such an event also
follows each failure that the state machine has reported itself; a job that was reported is not reported again.
"""

import json
from functools import cache
from typing import Any

from cosmos_batch.contract.environment import ReportEnvironment
from lambdas.reporting.execution_end import ExecutionEnd
from lambdas.reporting.report import report_once
from lambdas.runs.run_input import is_run
from lambdas.sqs_records import Record, each_record


@cache
def environment() -> ReportEnvironment:
    """Return the function's environment variables."""
    return ReportEnvironment.read()


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Report the end of the execution whose state machine calls, or of each execution in a batch of SQS records.

    The answer to the state machine has `error` and `cause`, with which it fails, or else `result`.
    """
    if "Records" in event:
        return each_record(event, take, context)
    result = report_once(ExecutionEnd.read(event), environment()).result
    error = result.error
    return {
        "error": None if error is None else error.code,
        "cause": None if error is None else error.cause(),
        "result": None if error is not None else result.model_dump(mode="json"),
    }


def take(record: Record) -> None:
    """Report the end of an execution whose change of status EventBridge sent.

    The end of a run is left to `finish_run`.
    """
    end = ExecutionEnd.read(json.loads(record["body"]))
    if not is_run(end.request):
        report_once(end, environment())
