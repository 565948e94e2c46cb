"""Reading the JSON result of a child process, around which libraries print lines of their own."""

import json
from typing import Any


def last_json_object(printed: str) -> dict[str, Any]:
    """Return the last line of `printed` that is a JSON object, parsed."""
    lines = [line for line in printed.splitlines() if line.startswith("{")]
    result: dict[str, Any] = json.loads(lines[-1])
    return result
