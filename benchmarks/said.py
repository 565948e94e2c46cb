"""What a child process says last, in JSON; libraries print before and after."""

import json
from typing import Any


def said_last(printed: str) -> dict[str, Any]:
    """The last line that is a JSON object."""
    lines = [line for line in printed.splitlines() if line.startswith("{")]
    found: dict[str, Any] = json.loads(lines[-1])
    return found
