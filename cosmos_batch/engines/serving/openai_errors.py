"""Errors of a server that speaks OpenAI's protocol, as failures that a person can act on."""

import httpx2

from cosmos_batch.contract.error import Failure
from cosmos_batch.engines.serving.dialect import ServerDialect
from cosmos_batch.engines.serving.server import ServerFault

_TOO_LARGE = 413
_MESSAGE_LIMIT = 600  # characters of a server's message


def error_message(response: httpx2.Response) -> str:
    """Return the message of an error response, or the beginning of its body if that is not OpenAI's error object."""
    try:
        error = response.json()["error"]
        return str(error["message"])[:_MESSAGE_LIMIT]
    except (ValueError, KeyError, TypeError):
        return response.text[:_MESSAGE_LIMIT]


def refusal(status: int, message: str, dialect: ServerDialect) -> Failure:
    """Return the failure for an error response: InvalidInput where the caller can change the request, else
    EngineFailed.

    A status of 500 and above is a `ServerFault`, because the server's process may be about to end.
    """
    if status < 500 and (failure := dialect.refusal(message)) is not None:
        return failure
    if status == _TOO_LARGE:
        remedy = "Lower fps, look at a part (start, end), or let the server and its proxy take larger requests."
        return Failure("InvalidInput", f"The request is larger than the server takes (HTTP 413): {message}", remedy)
    kind = ServerFault if status >= 500 else Failure
    return kind(
        "EngineFailed",
        f"The engine refused the request (HTTP {status}): {message}",
        "Try it again; if it fails again, report it with the worker's log.",
        retryable=status >= 500,
    )
