"""Errors with a message and a remedy for the person who receives them."""

import re
import reprlib
from collections.abc import Collection, Iterator
from datetime import datetime
from difflib import get_close_matches
from typing import Any, Literal, Self

from pydantic import BaseModel, Field, ValidationError
from pydantic_core import ErrorDetails

from cosmos_batch.contract.base import Model

ErrorCode = Literal[
    "InvalidInput",  # the request or its file; sending it again changes nothing
    "ModelUnavailable",  # licence, token, not found
    "Blocked",  # a guardrail refused the prompt or the output
    "EngineFailed",  # the engine crashed on this job, or returned an invalid answer
    "NoCapacity",  # no worker could be started
    "Cancelled",  # a person stopped it
    "TimedOut",  # the deadline or the attempt's limit passed
    "Internal",  # our fault
]

# How much a misspelled name has in common with the one that is suggested, 0 to 1. Allowed words are listed anyway.
_ALIKE_NAMES, _ALIKE_WORDS = 0.6, 0.75
MESSAGE_LIMIT = 2000  # characters, of the message and of the remedy

# Characters of a task token's `cause`: a message and a remedy of full length. Step Functions takes 32,768. VAMS 2.5
# stores nothing of a cause, so that it is read in its execution's history; VAMS 2.6 stores 16 KiB of UTF-8
# (MAX_ERROR_FIELD_BYTES in its handleExecutionError.py), which hold as many characters of four bytes each.
CAUSE_LIMIT = 4096


class Error(Model):
    """The error part of a result, of a callback's cause and of a refused Lambda call."""

    code: ErrorCode = Field(description="What kind of failure this is")
    message: str = Field(max_length=MESSAGE_LIMIT, description="What happened, and to what")
    remedy: str = Field(max_length=MESSAGE_LIMIT, description="What the person can do about it")
    retryable: bool = Field(default=False, description="True if the same request may succeed later")

    def cause(self, limit: int = CAUSE_LIMIT) -> str:
        """Return JSON of at most `limit` (256 or more) characters, for a task token's `cause`.

        The message is cut first, to 80 characters, then the remedy, then the rest of the message.
        """
        error = self
        for field, minimum in (("message", 80), ("remedy", 0), ("message", 0)):
            excess = len(error.model_dump_json()) - limit
            if excess > 0:
                text: str = getattr(error, field)
                shortened = text[: max(minimum, len(text) - excess - 1)]
                error = error.model_copy(update={field: shortened + "…" if shortened != text else text})
        return error.model_dump_json()


class Failure(Exception):  # noqa: N818 - it carries an Error and is none
    """An exception that carries an `Error`. Raise it `from` its cause, so that logs show both."""

    def __init__(self, code: ErrorCode, message: str, remedy: str, retryable: bool = False) -> None:
        self.error = Error(
            code=code, message=message[:MESSAGE_LIMIT], remedy=remedy[:MESSAGE_LIMIT], retryable=retryable
        )
        super().__init__(self.error.model_dump_json())

    @classmethod
    def of(cls, error: Error) -> Self:
        """Return an exception that carries an existing error."""
        return cls(error.code, error.message, error.remedy, error.retryable)


def named_deadline(deadline: datetime | None) -> str:
    """Return the subject of a sentence about the deadline of a request, with the moment if it is known."""
    moment = "" if deadline is None else f" ({deadline:%Y-%m-%d %H:%M:%S %Z})"
    return f"The deadline of the request{moment}"


def too_late(deadline: datetime | None = None) -> Error:
    """Return the error of a request whose deadline, if it is known, passed before it was done.

    It may be retried: `cosmos-batch retry` and a later run ask the same without this deadline.
    """
    return Error(
        code="TimedOut",
        message=f"{named_deadline(deadline)} passed before it was done.",
        remedy="Ask again with a later deadline, or raise maxVCpus so that more workers serve the queue.",
        retryable=True,
    )


def explain(error: ValidationError, known: Collection[str] = ()) -> str:
    """Return a line for each wrong field: its path in JSON, its value, and what is allowed.

    `known` are the names that a field may have; an unknown field is named with the nearest of them.
    """
    return "\n".join(_explain_field(detail, known) for detail in error.errors(include_url=False))


def field_names(model: type[BaseModel]) -> list[str]:
    """Return the names in JSON of a model's fields and of those of the models in it."""
    schema = model.model_json_schema()
    return list(dict.fromkeys(_property_names(schema)))


def unknown_field(name: str, known: Collection[str]) -> str:
    """Return the end of a sentence about an unknown field, with the known name that is most like it, if one is alike.

    A name that is itself among the known ones stands in the wrong part of the document.
    """
    if name in known:
        return "unknown field in this place; it belongs into another part"
    near = nearest_name(name, known)
    return f"unknown field; {f'did you mean {near}?' if near else 'remove it or correct its name'}"


def nearest_name(name: str, known: Collection[str], cutoff: float = _ALIKE_NAMES) -> str | None:
    """Return the known name that is most like a misspelled one, if one is alike. Case and underscores do not count.

    `cutoff` is how much they must have in common: 0 to 1.
    """
    by_letters = {_letters(one): one for one in known}
    near = get_close_matches(_letters(name), by_letters, n=1, cutoff=cutoff)
    return by_letters[near[0]] if near else None


def suggestion(name: str, known: Collection[str]) -> str:
    """Return a question that begins a remedy, with the known name most like a misspelled one; "" if none is alike."""
    near = nearest_name(name, known)
    return f"Did you mean {near}? " if near else ""


def _letters(name: str) -> str:
    return name.replace("_", "").lower()


def _property_names(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for item in schema:
            yield from _property_names(item)
    elif isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict):
            yield from schema["properties"]
        for value in schema.values():
            yield from _property_names(value)


def _explain_field(detail: ErrorDetails, known: Collection[str]) -> str:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in detail["loc"]).lstrip(".")
    path = path or "the whole"
    if detail["type"] == "extra_forbidden":
        return f"{path}: {unknown_field(str(detail['loc'][-1]), known)}"
    if detail["type"] == "missing":
        return f"{path}: is missing"
    secret = "token" in path.lower().replace("maxtokens", "") or "callback" in path
    value = "the value given" if secret else reprlib.repr(detail["input"])
    return f"{path}: {value}: {detail['msg'].removeprefix('Value error, ')}{_nearest_word(detail)}"


def _nearest_word(detail: ErrorDetails) -> str:
    """Return the end of the sentence about a misspelled word, with the allowed one that is most like it."""
    if detail["type"] != "literal_error" or not isinstance(detail["input"], str):
        return ""
    near = nearest_name(detail["input"], re.findall(r"'([^']+)'", detail["ctx"]["expected"]), cutoff=_ALIKE_WORDS)
    return f"; did you mean {near}?" if near else ""
