"""`close_queue`: the custom resource that ends the jobs of a queue before CloudFormation deletes the queue."""

from functools import cache
from typing import Any

from cosmos_batch.contract.environment import CloseQueueEnvironment
from lambdas.clients import state_table
from lambdas.reporting.closed_queues import close_if_deleted


@cache
def environment() -> CloseQueueEnvironment:
    """Return the function's environment variables."""
    return CloseQueueEnvironment.read()


def handler(event: dict[str, Any], context: Any) -> None:
    """Handle a request of CloudFormation."""
    close_if_deleted(
        event, state_table(environment().state_table), lambda: context.get_remaining_time_in_millis() / 1000
    )
