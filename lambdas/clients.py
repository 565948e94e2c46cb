"""AWS clients, each made once, when it is first used."""

from functools import cache
from typing import Any

from cosmos_batch.state import Table

# Standard mode waits up to 20 s between tries, about half a minute in all: a burst of StartExecution is refilled
# at 150 to 300 a second. What is still throttled then goes back to its queue.
ATTEMPTS = 7


@cache
def client(service: str) -> Any:
    """The boto3 client of a service.

    boto3 is imported here: it takes longer to import than all else of a handler, and an event that is ignored by its
    key alone, or a body that is refused, needs none of it.
    """
    import boto3
    from botocore.config import Config

    return boto3.client(service, config=Config(retries={"mode": "standard", "max_attempts": ATTEMPTS}))


@cache
def state_table(name: str) -> Table:
    """The state table."""
    return Table(client("dynamodb"), name)
