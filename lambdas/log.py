"""Write log lines, each a JSON object. They hold ids, and never a token, a prompt or a document."""

import json
import traceback


def log(message: str, **fields: object) -> None:
    """Log what happened; the fields name what it happened to."""
    print_line(json.dumps({"message": message, **fields}, default=str))


def log_fault(message: str, error: Exception, **fields: object) -> None:
    """Log an exception's type, error code and stack. Its text is left out, for it may quote a prompt or a token."""
    code = getattr(error, "response", {}).get("Error", {}).get("Code")
    frames = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)]
    log(message, level="ERROR", error=type(error).__name__, code=code, frames=frames, **fields)


def print_line(text: str) -> None:
    """Print a line with one write. `print` by itself writes the newline apart, and threads' lines would mix."""
    print(text + "\n", end="", flush=True)
