"""`finish_run`: sum up a run whose execution has ended, and answer its caller.

The state machine calls it at the end of a run, also after an error. Executions that were stopped or timed out come from
EventBridge through SQS: such an execution runs no further state.
"""

import json
from functools import cache
from typing import Any

from cosmos_batch.contract.environment import FinishRunEnvironment
from lambdas.clients import state_table, throttling_named
from lambdas.runs.finish import finish_execution, finish_stopped
from lambdas.sqs_records import Record, each_record


@cache
def environment() -> FinishRunEnvironment:
    """Return the function's environment variables."""
    return FinishRunEnvironment.read()


@throttling_named()
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Finish the execution whose state machine calls, or each execution in a batch of SQS records.

    The answer to the state machine has `error` and `cause` if the execution is to fail, and `summary` if there is one.
    """
    table = state_table(environment().state_table)
    if "Records" not in event:
        return finish_execution(event, table, environment())

    def take(record: Record) -> None:
        finish_stopped(json.loads(record["body"]), table, environment())

    return each_record(event, take, context)
