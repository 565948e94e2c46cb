"""`dead_letter`: answer the callers of jobs whose messages SQS moved to a dead-letter queue.

SQS moves a message after a thousand receives, without any of which a worker brought the job to an end.
"""

from functools import cache
from typing import Any

from cosmos_batch.contract.environment import DeadLetterEnvironment
from lambdas.clients import state_table
from lambdas.reporting.dead_letters import answer_dead_letter
from lambdas.sqs_records import each_record


@cache
def environment() -> DeadLetterEnvironment:
    """Return the function's environment variables."""
    return DeadLetterEnvironment.read()


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Handle a batch of messages of a pipeline's dead-letter queue."""
    table = state_table(environment().state_table)
    return each_record(event, lambda record: answer_dead_letter(record, table), context)
