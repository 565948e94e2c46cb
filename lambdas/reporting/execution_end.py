"""Read how an execution ended, from what the state machine or EventBridge says of it."""

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Self

from pydantic import ValidationError

from cosmos_batch.contract.error import MESSAGE_LIMIT, Error, too_late
from cosmos_batch.contract.job import SQS_FAILED, SQS_UNREACHABLE
from cosmos_batch.contract.result import Result

# The error names of a waiting state whose time is up: the job's deadline passed before a worker answered.
_TIMEOUTS = ("States.Timeout", "States.HeartbeatTimeout")


@dataclass(frozen=True)
class ExecutionEnd:
    """The end of an execution: its job's result, or its error."""

    job_id: str
    result: Result
    started_at: datetime
    request: Any = None  # the execution's input, of any JSON type; None where the event does not have it

    @classmethod
    def read(cls, event: dict[str, Any]) -> Self:
        """Read the state machine's call (`execution` with `result` or `error`) or EventBridge's event (`detail`)."""
        return cls._of_status_change(event["detail"]) if "detail" in event else cls._of_state_machine(event)

    @classmethod
    def _of_status_change(cls, detail: dict[str, Any]) -> Self:
        name = {"ABORTED": "Aborted", "TIMED_OUT": "States.Timeout"}.get(detail["status"], detail.get("error"))
        result = Result(job_id=detail["name"], error=error_of(name, detail.get("cause")))
        # EventBridge leaves out an input that would make the event too large.
        request = json.loads(detail["input"]) if detail.get("input") else None
        return cls(detail["name"], result, datetime.fromtimestamp(detail["startDate"] / 1000, UTC), request)

    @classmethod
    def _of_state_machine(cls, event: dict[str, Any]) -> Self:
        execution = event["execution"]
        started_at = datetime.fromisoformat(execution["startTime"]).astimezone(UTC)
        if "error" in event:
            error = error_of(event["error"].get("Error"), event["error"].get("Cause"))
            result = Result(job_id=execution["name"], error=error)
        else:
            result = Result.model_validate(event["result"], extra="ignore")
        return cls(execution["name"], result, started_at, execution.get("input"))

    def with_result(self, result: Result) -> Self:
        """Return the end of the same execution with another result of its job."""
        return replace(self, result=result)


def error_of(name: str | None, cause: str | None) -> Error:
    """Return the Error that an execution failed with, from the name and the cause that Step Functions has of it.

    The cause is our Error as JSON where a worker or `scale` answered the task token, and a JSON object that has it as
    `errorMessage` where a Lambda function raised Failure. Any other cause is quoted in an Error of code `Internal`.
    """
    if name in _TIMEOUTS:
        return too_late()
    if name == "Aborted":
        cancelled = _parse_error(cause)  # `cosmos-batch cancel` gives our own error as the cause
        if cancelled is not None and cancelled.code == "Cancelled":
            return cancelled
        return Error(
            code="Cancelled",
            message=_with_cause("The execution was stopped.", cause),
            remedy="Start it again if it was stopped by mistake.",
        )
    return _parse_error(cause) or _parse_error(_error_message(cause)) or _unknown_error(name, cause)


def _parse_error(text: str | None) -> Error | None:
    try:
        return None if text is None else Error.model_validate_json(text, extra="ignore")
    except ValidationError:
        return None


def _error_message(cause: str | None) -> str | None:
    """Return `errorMessage` from the cause that Lambda gives for an exception; None for any other cause."""
    try:
        envelope = json.loads(cause or "")
    except ValueError:
        return None
    message = envelope.get("errorMessage") if isinstance(envelope, dict) else None
    return message if isinstance(message, str) else None


def _unknown_error(name: str | None, cause: str | None) -> Error:
    return Error(
        code="Internal",
        message=_with_cause(f"{name or 'The execution failed'}:", cause or "no cause was given"),
        remedy="See the execution's history; start it again if the cause has passed.",
        retryable=name in (SQS_UNREACHABLE, SQS_FAILED),
    )


def _with_cause(text: str, cause: str | None) -> str:
    return f"{text} {cause or ''}".strip()[:MESSAGE_LIMIT]
