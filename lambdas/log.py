"""Log lines: one JSON object each, with ids and no token, prompt or document."""

import json
import traceback


def log(message: str, **fields: object) -> None:
    """Say what happened, and to what."""
    print_line(json.dumps({"message": message, **fields}, default=str))


def log_fault(message: str, error: Exception, **fields: object) -> None:
    """Say what went wrong and where. The exception's text stays out: it may quote a prompt or a token."""
    code = getattr(error, "response", {}).get("Error", {}).get("Code")
    frames = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)]
    log(message, level="ERROR", error=type(error).__name__, code=code, frames=frames, **fields)


def print_line(text: str) -> None:
    """Print a line in one piece: `print` alone writes its end apart, where another thread's line may come between."""
    print(text + "\n", end="", flush=True)
