"""AWS clients, each made once, when it is first used; and what AWS says when it is asked too much."""

import threading
from functools import cache
from typing import Any

from cosmos_batch.state import Table

# Standard mode waits up to 20 s between tries, about half a minute in all: a burst of StartExecution is refilled
# at 150 to 300 a second. What is still throttled then goes back to its queue.
ATTEMPTS = 7

# By service: Step Functions, Lambda and others; DynamoDB; EC2's family; SQS; S3; an account's open executions.
_THROTTLING = {
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "RequestThrottled",
    "SlowDown",
    "ExecutionLimitExceeded",
}
_BUSY = (429, 503)  # HTTP status: the answer to S3's HEAD has no body that could name an error

# Clients may be shared by threads, but not be made by several at a time.
MAKING = threading.Lock()


def client(service: str) -> Any:
    """The boto3 client of a service."""
    with MAKING:
        return make_client(service)


@cache
def make_client(service: str) -> Any:
    """Call `client` instead, which lets one thread at a time come here.

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


def is_throttling(error: BaseException | None) -> bool:
    """Whether an error, or one that it was raised from, is AWS's word for too many requests."""
    while error is not None:
        response = getattr(error, "response", {})
        code = response.get("Error", {}).get("Code")
        if code in _THROTTLING or response.get("ResponseMetadata", {}).get("HTTPStatusCode") in _BUSY:
            return True
        error = error.__cause__
    return False
