"""Decide which errors of S3 are retried, and for how long."""

import logging
import random
import time
from collections.abc import Callable
from typing import TypeVar

from boto3.exceptions import Boto3Error, S3UploadFailedError
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError
from s3transfer import exceptions as transfers
from urllib3.exceptions import HTTPError

from cosmos_batch.catalogue.aws_errors import may_pass

logger = logging.getLogger(__name__)

Value = TypeVar("Value")

FAULTS: tuple[type[Exception], ...] = (
    ClientError,
    BotoCoreError,
    ResponseParserError,  # a proxy or a broken endpoint answered with something that is not the service's format
    Boto3Error,  # `RetriesExceededError` and `S3UploadFailedError` of boto3 have no other base
    transfers.RetriesExceededError,
    transfers.S3DownloadFailedError,
    transfers.S3UploadFailedError,
    transfers.CancelledError,
    HTTPError,  # urllib3's: botocore translates only two of its errors while a body is read
)
"""All errors that boto3 raises where a request or a transfer failed. They have no common base class."""

# An outage of S3 of a minute is no reason to give up. But a waiting worker costs money, so it gives up when no request
# has succeeded for this long.
RETRY_SECONDS = 300.0
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 20.0  # seconds; the pause doubles with each try


class RetryBudget:
    """Repeats requests that fail with an error that may pass. One object serves all threads of one operation.

    It gives up when a request has failed for `seconds` and no other of the operation has succeeded meanwhile. So an
    operation of thousands of requests succeeds even if one in five of them fails; and one that takes longer than
    `seconds` until it fails, such as the upload of a large file, is repeated too.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = RETRY_SECONDS if seconds is None else seconds
        self._success_at = time.monotonic()

    def call(self, request: Callable[[], Value]) -> Value:
        """Call `request` until it succeeds, and return its result. Raises the last of `FAULTS` after giving up."""
        attempt, failing_since = 0, None
        while True:
            try:
                result = request()
            except FAULTS as error:
                failing_since = failing_since or time.monotonic()
                since = max(failing_since, self._success_at)
                if not may_succeed_later(error) or time.monotonic() - since > self._seconds:
                    raise
                logger.info("retrying a request of S3: %s: %s", type(error).__name__, error)
                time.sleep(min(FIRST_PAUSE * 2.0**attempt, LONGEST_PAUSE) * random.uniform(0.5, 1))
                attempt += 1
            else:
                self._success_at = time.monotonic()
                return result


def may_succeed_later(error: Exception) -> bool:
    """Return whether the same request may succeed later: the network or the service failed, but did not refuse it."""
    if isinstance(error, S3UploadFailedError) and isinstance(error.__context__, ClientError):
        error = error.__context__  # `upload_file` raises its own error for an answer of S3
    if not isinstance(error, ClientError):
        return True
    return may_pass(error.response)
