"""The Error behind what Step Functions says of a failed execution."""

import json

from pydantic import ValidationError

from cosmos_batch.contract.error import MESSAGE_LIMIT, Error

# What a state reports when it waited until the deadline; both mean that nobody answered in time.
_TIMEOUTS = ("States.Timeout", "States.HeartbeatTimeout")


def error_of(name: str | None, cause: str | None) -> Error:
    """Read an error's name and cause: a worker's or our own Error, one inside a Lambda's envelope, or neither."""
    if name in _TIMEOUTS:
        return Error(
            code="TimedOut",
            message="The deadline passed before the job was done.",
            remedy="Start it again, with a later deadline if the queue is long.",
            retryable=True,
        )
    if name == "Aborted":
        return Error(
            code="Cancelled",
            message=_kept("The execution was stopped.", cause),
            remedy="Start it again if it was stopped by mistake.",
        )
    return _parsed(cause) or _parsed(_error_message(cause)) or _unknown(name, cause)


def _parsed(text: str | None) -> Error | None:
    try:
        return None if text is None else Error.model_validate_json(text)
    except ValidationError:
        return None


def _error_message(cause: str | None) -> str | None:
    """`errorMessage` of a Lambda that raised; of a `Failure` it is the Error's JSON."""
    try:
        envelope = json.loads(cause or "")
    except ValueError:
        return None
    message = envelope.get("errorMessage") if isinstance(envelope, dict) else None
    return message if isinstance(message, str) else None


def _unknown(name: str | None, cause: str | None) -> Error:
    return Error(
        code="Internal",
        message=_kept(f"{name or 'The execution failed'}:", cause or "no cause was given"),
        remedy="See the execution's history; start it again if the cause has passed.",
    )


def _kept(text: str, cause: str | None) -> str:
    return f"{text} {cause or ''}".strip()[:MESSAGE_LIMIT]
