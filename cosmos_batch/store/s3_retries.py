"""What can go wrong between us and S3, and how long it is tried again."""

import logging
import random
import time
from collections.abc import Callable
from typing import TypeVar

from boto3.exceptions import Boto3Error
from botocore.exceptions import BotoCoreError, ClientError
from s3transfer import exceptions as transfers
from urllib3.exceptions import HTTPError

logger = logging.getLogger(__name__)

Value = TypeVar("Value")

FAULTS: tuple[type[Exception], ...] = (
    ClientError,
    BotoCoreError,
    Boto3Error,  # `RetriesExceededError` and `S3UploadFailedError` of boto3 have no other base
    transfers.RetriesExceededError,
    transfers.S3DownloadFailedError,
    transfers.S3UploadFailedError,
    transfers.CancelledError,
    HTTPError,  # of urllib3: botocore translates only two of its errors while a body is read
)
"""Every error by which boto3 tells that a request or a transfer failed. There is no common base."""

# An S3 that stands still for a minute is no reason to give up. A worker that waits costs money, so it does not wait
# longer than this for the first sign of life.
RETRY_SECONDS = 300.0
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 20.0  # seconds; the pause doubles with each try
_SERVER_ERROR, _TOO_MANY_REQUESTS = 500, 429
_PASSING_CODES = {"RequestTimeout", "SlowDown", "Throttling", "ThrottlingException", "RequestTimeTooSkewed"}


class RetryBudget:
    """Repeats requests that fail for reasons that may pass. One object serves one operation, from all its threads.

    It gives up when nothing has succeeded for `seconds`: where one request in five fails, an operation of thousands of
    requests still ends well.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = RETRY_SECONDS if seconds is None else seconds
        self._success_at = time.monotonic()

    def call(self, request: Callable[[], Value]) -> Value:
        """The answer of `request`. Raises the last of `FAULTS` where it can not be had."""
        attempt = 0
        while True:
            try:
                answer = request()
            except FAULTS as error:
                if not may_succeed_later(error) or time.monotonic() - self._success_at > self._seconds:
                    raise
                logger.info("S3 is asked again: %s: %s", type(error).__name__, error)
                time.sleep(min(FIRST_PAUSE * 2.0**attempt, LONGEST_PAUSE) * random.uniform(0.5, 1))
                attempt += 1
            else:
                self._success_at = time.monotonic()
                return answer


def may_succeed_later(error: Exception) -> bool:
    """Whether the same request may succeed later: the network failed, or S3 is busy or broken; it did not refuse."""
    if not isinstance(error, ClientError):
        return True
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    code = error.response.get("Error", {}).get("Code", "")
    return status >= _SERVER_ERROR or status == _TOO_MANY_REQUESTS or code in _PASSING_CODES
