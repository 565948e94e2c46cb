"""Formats a worker's log lines as JSON objects, as those of the Lambda functions.

They name jobs by id, and contain no task token, prompt or document.
"""

import json
import logging
import traceback
from datetime import UTC, datetime
from typing import Any

_STANDARD_FIELDS = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
_NOISY = ("botocore", "httpx", "httpx2")


class JsonLines(logging.Formatter):
    """Formats a record with its `extra` as fields. The text of an exception is left out: it may quote a prompt."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **{name: value for name, value in vars(record).items() if name not in _STANDARD_FIELDS},
        }
        if record.exc_info and record.exc_info[1] is not None:
            line.update(_described(record.exc_info[1]))
        return json.dumps(line, default=str)


def _described(error: BaseException) -> dict[str, Any]:
    """Return an exception's type, its AWS error code, its stack frames and its cause."""
    frames = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)]
    code = getattr(error, "response", {}).get("Error", {}).get("Code")
    fields: dict[str, Any] = {"error": type(error).__name__, "code": code, "frames": frames}
    return fields if error.__cause__ is None else {**fields, "cause": _described(error.__cause__)}


def start_logging() -> None:
    """Configure logging for a process of the worker: JSON lines to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)
