"""The boto3 clients that the functions use, each created when it is first needed, and what throttled calls raise."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any

from cosmos_batch.catalogue.aws_errors import is_throttled
from cosmos_batch.state import Table

# In boto3's standard mode, 7 attempts with pauses of up to 20 s last about half a minute. A burst of StartExecution is
# refilled at 150 to 300 calls a second; an event whose calls are still throttled then goes back to its queue.
ATTEMPTS = 7
SESSION_SECONDS = 1800  # how long credentials of VAMS's role are used: half of AssumeRole's default of an hour

# Threads may share a client, but boto3 must not create several clients at a time.
_CREATION = threading.Lock()


def client(service: str) -> Any:
    """Return the boto3 client of a service."""
    with _CREATION:
        return cached_client(service)


@cache
def cached_client(service: str) -> Any:
    """Return the boto3 client of a service. Call `client` instead, which lets one thread at a time create one.

    boto3 is imported here and not at the module's top: it takes longer to import than everything else, and a handler
    that ignores an event by its key, or refuses a body, needs no client.
    """
    import boto3
    from botocore.config import Config

    return boto3.client(service, config=Config(retries={"mode": "standard", "max_attempts": ATTEMPTS}))


@cache
def state_table(name: str) -> Table:
    """Return the state table of this name."""
    return Table(client("dynamodb"), name)


def vams_client(service: str, role_arn: str | None) -> Any:
    """Return the boto3 client for calls to VAMS, with its role for callbacks or, without one, with the function's role.

    VAMS may run in another account, in which a role allows us to call Step Functions and EventBridge.
    """
    if role_arn is None:
        return client(service)
    return _client_of_role(service, role_arn, int(time.time() // SESSION_SECONDS))


@lru_cache(maxsize=4)
def _client_of_role(service: str, role_arn: str, _period: int) -> Any:
    """Return a client with new credentials for each period, so that none is used for longer than half of its life."""
    import boto3

    session = client("sts").assume_role(RoleArn=role_arn, RoleSessionName="cosmos-batch")["Credentials"]
    with _CREATION:
        return boto3.client(
            service,
            aws_access_key_id=session["AccessKeyId"],
            aws_secret_access_key=session["SecretAccessKey"],
            aws_session_token=session["SessionToken"],
        )


class Throttled(Exception):  # noqa: N818 - the state machine knows it by this name
    """AWS still throttles a call after all of boto3's attempts. The state machine calls the function again, for days.

    botocore has an exception of its own for some codes of throttling alone; the others are a `ClientError`.
    """


@contextmanager
def throttling_named() -> Iterator[None]:
    """Raise Throttled in place of any exception that comes from throttling."""
    try:
        yield
    except Exception as error:
        if is_throttling(error):
            raise Throttled(str(error)) from error
        raise


def is_throttling(error: BaseException | None) -> bool:
    """Return whether an exception, or one that it was raised from, says that AWS was called too often."""
    while error is not None:
        if is_throttled(getattr(error, "response", {})):
            return True
        error = error.__cause__
    return False
