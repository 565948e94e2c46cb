"""What it means that somebody else's server gives no answer, and how long to wait before it is asked again."""

import email.utils
import random
import ssl
from collections.abc import Iterator
from datetime import datetime

import httpx2

from cosmos_batch.contract.error import Failure
from cosmos_batch.engines.errors import OutageKind, ServerUnavailable

BUSY = (429, 503)
"""The server did not begin on the request: too many of them, or none can be served now."""

BROKEN = (502, 504)
"""A proxy says that the server behind it broke off, is not there, or took too long: it may have begun."""

FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0  # seconds; doubled with each try

# Of OpenSSL: not valid yet, expired. Somebody will renew it, and the jobs can wait for that.
_CURABLE_CERTIFICATES = (9, 10)


def unreachable(url: str, error: Exception, kind: OutageKind = "away") -> Failure:
    """For a connection that could not be made, or that broke."""
    certificate = next((one for one in _causes(error) if isinstance(one, ssl.SSLCertVerificationError)), None)
    if certificate is not None and certificate.verify_code not in _CURABLE_CERTIFICATES:
        return Failure(
            "ModelUnavailable",
            f"The certificate of {url} cannot be trusted: {certificate.verify_message}.",
            "Give the server a certificate for its name from a public authority. Until then it is sent neither files "
            "nor a key.",
        )
    return ServerUnavailable(
        kind,
        f"{url} does not answer: {type(error).__name__}: {error}",
        "Check that the server runs, and that the workers may reach it: security groups, routes, name, certificate.",
    )


def not_served(url: str, response: httpx2.Response, said: str, broken: OutageKind = "interrupted") -> ServerUnavailable:
    """For a response that is `BUSY`, or `BROKEN`, which is of the kind that is given."""
    status = response.status_code
    if status in BUSY:
        return ServerUnavailable(
            "busy",
            f"{url} is busy (HTTP {status}): {said}",
            "Lower endpoint.concurrency or maxVCpus, or give the server more GPUs.",
            retry_after(response),
        )
    return ServerUnavailable(
        broken,
        f"{url} cannot be reached through its proxy (HTTP {status}): {said}",
        "Check the server behind it, and how long the proxy waits for an answer.",
    )


def too_slow(url: str, seconds: int, kind: OutageKind) -> ServerUnavailable:
    """For a server that took a request, and did not answer it in time."""
    return ServerUnavailable(
        kind,
        f"{url} gave no answer within {seconds} s.",
        "Lower maxTokens or endpoint.concurrency, or raise endpoint.timeoutSeconds.",
    )


def waiting(attempt: int, asked_seconds: float | None = None) -> float:
    """Seconds until the next try: what the server asks for, else twice as many each time, less a random part."""
    if asked_seconds is not None:
        return min(asked_seconds, LONGEST_WAIT)
    return min(FIRST_WAIT * 2.0**attempt, LONGEST_WAIT) * random.uniform(0.5, 1)


def retry_after(response: httpx2.Response) -> float | None:
    """Seconds that the header Retry-After asks for: it holds a number, or a date."""
    value = response.headers.get("retry-after")
    if value is None:
        return None
    try:
        if value.strip().isdecimal():
            return float(value)
        moment = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (moment - datetime.now(moment.tzinfo)).total_seconds())


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and those that it was raised from."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
