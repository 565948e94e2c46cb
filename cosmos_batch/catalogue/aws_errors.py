"""The errors of AWS after which the same request may succeed, as boto3 has them in the answer of a `ClientError`."""

from collections.abc import Mapping
from typing import Any

_TIMED_OUT, _TOO_MANY_REQUESTS, _SERVER_ERROR, _UNAVAILABLE = 408, 429, 500, 503

THROTTLING_CODES = frozenset(
    {
        # The guide of boto3 on retries lists these codes for its standard mode.
        *("Throttling", "ThrottlingException", "ThrottledException", "RequestThrottledException"),
        *("TooManyRequestsException", "ProvisionedThroughputExceededException", "TransactionInProgressException"),
        *("RequestLimitExceeded", "BandwidthLimitExceeded", "LimitExceededException", "RequestThrottled"),
        *("SlowDown", "PriorRequestNotComplete", "EC2ThrottledException"),
        "ExecutionLimitExceeded",  # of Step Functions: the account has its most open executions
    }
)

# Other codes of HTTP 4xx that may pass: a slow request, which S3 refuses with 400; a wrong clock; credentials that
# boto3 replaces.
PASSING_CODES = THROTTLING_CODES | {
    *("RequestTimeout", "RequestTimeoutException", "RequestTimeTooSkewed", "ExpiredToken", "ExpiredTokenException")
}


def is_throttled(response: Mapping[str, Any]) -> bool:
    """Return whether AWS answers that it is called too often. S3's answer to HEAD has a status alone."""
    status, code = _status_and_code(response)
    return status in (_TOO_MANY_REQUESTS, _UNAVAILABLE) or code in THROTTLING_CODES


def may_pass(response: Mapping[str, Any]) -> bool:
    """Return whether the same request may succeed later: the service was busy or failed, but did not refuse it."""
    status, code = _status_and_code(response)
    return status >= _SERVER_ERROR or status in (_TIMED_OUT, _TOO_MANY_REQUESTS) or code in PASSING_CODES


def _status_and_code(response: Mapping[str, Any]) -> tuple[int, str]:
    status: int = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    code: str = response.get("Error", {}).get("Code", "")
    return status, code.removeprefix("KMS.")  # S3 and SQS pass on the errors of KMS under this prefix
