"""Log lines of a worker: one JSON object each, as those of the functions, with ids and no token, prompt or document."""

import json
import logging
import traceback
from datetime import UTC, datetime
from typing import Any

_OF_LOGGING = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
_CHATTY = ("botocore", "httpx", "httpx2")


class JsonLines(logging.Formatter):
    """What a record says, with its `extra` as fields. An exception's text stays out, for it may quote a prompt."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **{name: value for name, value in vars(record).items() if name not in _OF_LOGGING},
        }
        if record.exc_info and record.exc_info[1] is not None:
            line.update(_traced(record.exc_info[1]))
        return json.dumps(line, default=str)


def _traced(error: BaseException) -> dict[str, Any]:
    """Type, AWS's code, where, and after what."""
    frames = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)]
    code = getattr(error, "response", {}).get("Error", {}).get("Code")
    said: dict[str, Any] = {"error": type(error).__name__, "code": code, "frames": frames}
    return said if error.__cause__ is None else {**said, "cause": _traced(error.__cause__)}


def start_logging() -> None:
    """Of a process of the worker, to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    for chatty in _CHATTY:
        logging.getLogger(chatty).setLevel(logging.WARNING)
