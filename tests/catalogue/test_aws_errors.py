"""Which answers of AWS say that the same request may succeed later."""

from typing import Any

import pytest
from botocore.retries.standard import ThrottledRetryableChecker, TransientRetryableChecker

from cosmos_batch.catalogue.aws_errors import PASSING_CODES, THROTTLING_CODES, is_throttled, may_pass


def answer(status: int, code: str) -> dict[str, Any]:
    return {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}


def test_all_codes_are_known_after_which_boto3_repeats_a_request() -> None:
    assert set(ThrottledRetryableChecker._THROTTLED_ERROR_CODES) <= THROTTLING_CODES
    assert set(TransientRetryableChecker._TRANSIENT_ERROR_CODES) <= PASSING_CODES


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "ThrottlingException"),
        (400, "KMS.ThrottlingException"),
        (400, "ExecutionLimitExceeded"),
        (403, "RequestThrottled"),
        (429, "TooManyRequests"),
        (503, "503"),
    ],
)
def test_an_answer_that_aws_is_called_too_often_may_pass(status: int, code: str) -> None:
    assert is_throttled(answer(status, code)) and may_pass(answer(status, code))


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, "RequestTimeout"), (408, "RequestTimeout"), (403, "RequestTimeTooSkewed"), (500, "InternalError")],
)
def test_a_slow_request_a_wrong_clock_and_a_fault_of_the_service_may_pass(status: int, code: str) -> None:
    assert may_pass(answer(status, code)) and not is_throttled(answer(status, code))


@pytest.mark.parametrize(
    ("status", "code"), [(301, "PermanentRedirect"), (400, "KMS.DisabledException"), (403, "AccessDenied")]
)
def test_a_refusal_does_not_pass(status: int, code: str) -> None:
    assert not may_pass(answer(status, code)) and not is_throttled(answer(status, code))
