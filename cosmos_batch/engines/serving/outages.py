"""Failures of a remote server that gives no answer, and how long to wait before the next request."""

import email.utils
import random
import ssl
from collections.abc import Iterator
from datetime import datetime

import httpx2

from cosmos_batch.contract.error import Failure
from cosmos_batch.engines.errors import OutageKind, ServerUnavailable

BUSY = (429, 503)
"""Statuses of a server that did not begin on the request: it has too many, or can serve none now."""

AWAY = (521, 522, 523, 530)
"""Statuses of Cloudflare's proxy if it finds no server or no connection to it, so that the server did not begin.

They are described at developers.cloudflare.com/support/troubleshooting/http-status-codes/cloudflare-5xx-errors.
"""

BROKEN = (408, 502, 504, 520, 524)
"""Statuses of a proxy whose server broke off, is not there, or took too long. The server may have begun.

408 is sent by servers and gateways for which a request took too long, on its way or while it was worked on; 520 and
524 are Cloudflare's for an answer that was none and for one that did not come in time.
"""

OUTAGES = (*BUSY, *AWAY, *BROKEN)
"""All statuses which say nothing about the request: the same request may succeed later."""

FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0  # seconds; each wait is twice the one before

# OpenSSL's codes for a certificate that is not valid yet or has expired. Its owner will renew it, so jobs can wait.
_RENEWABLE_CERTIFICATE = (9, 10)


def is_outage(response: httpx2.Response) -> bool:
    """Return whether a server that was asked for nothing but its state says that it cannot serve now."""
    return response.status_code in OUTAGES or response.is_server_error


def unreachable(url: str, error: Exception, kind: OutageKind = "away") -> Failure:
    """Return the failure for a connection that could not be made, or that broke."""
    causes = _causes(error)
    certificate = next((cause for cause in causes if isinstance(cause, ssl.SSLCertVerificationError)), None)
    if certificate is not None and certificate.verify_code not in _RENEWABLE_CERTIFICATE:
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


def not_served(
    url: str, response: httpx2.Response, message: str, broken: OutageKind = "interrupted"
) -> ServerUnavailable:
    """Return the failure for a response whose status says that the server cannot serve now.

    Its kind is `broken` for a status which does not tell whether the server began on the request.
    """
    status = response.status_code
    if status in BUSY:
        return ServerUnavailable(
            "busy",
            f"{url} is busy (HTTP {status}): {message}",
            "Lower endpoint.concurrency or maxVCpus, or give the server more GPUs.",
            retry_after(response),
        )
    if status not in OUTAGES:
        return not_ready(url, response, message)
    return ServerUnavailable(
        "away" if status in AWAY else broken,
        f"{url} cannot be reached through its proxy (HTTP {status}): {message}",
        "Check the server behind it, and how long the proxy waits for an answer.",
    )


def not_ready(url: str, response: httpx2.Response, message: str) -> ServerUnavailable:
    """Return the failure for a server that says of itself that it cannot serve now."""
    return ServerUnavailable(
        "away",
        f"{url} is not ready (HTTP {response.status_code}): {message}",
        "Check the server's log: it may still be starting.",
        retry_after(response),
    )


def too_slow(url: str, seconds: int, kind: OutageKind) -> ServerUnavailable:
    """Return the failure for a server that took a request and did not answer it in time."""
    return ServerUnavailable(
        kind,
        f"{url} gave no answer within {seconds} s.",
        "Ask for less (maxTokens, numFrames), lower endpoint.concurrency, or raise endpoint.timeoutSeconds.",
    )


def wait_before_retry(attempt: int, server_wait: float | None = None) -> float:
    """Return the seconds to wait before the next request: what the server sent, or else a backoff with jitter."""
    if server_wait is not None:
        return min(server_wait, LONGEST_WAIT)
    return min(FIRST_WAIT * 2.0**attempt, LONGEST_WAIT) * random.uniform(0.5, 1)


def retry_after(response: httpx2.Response) -> float | None:
    """Return the seconds in the header Retry-After, which holds a number or a date; None without a valid one."""
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
    """Yield an error and those that it was raised from."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
