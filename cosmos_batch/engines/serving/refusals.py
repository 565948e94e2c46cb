"""What the refusal of a server that speaks OpenAI's protocol means."""

import re

import httpx2

from cosmos_batch.contract.error import Failure
from cosmos_batch.engines.serving.server import ServerFault

NO_ANSWER = "Unsatisfiable schema"
"""What vLLM says of a schema that contradicts itself."""

_TOO_LARGE = 413
_TOO_MANY = re.compile(r"At most \d+ (image|video|audio)")
_TOO_LONG = ("maximum context length", "max_model_len", "longer than the maximum")
_SAID_LIMIT = 600  # characters of a server's message


def refused(status: int, said: str) -> Failure:
    """What a status that is no success means, with what the server said."""
    if status < 500 and any(pattern in said for pattern in _TOO_LONG):
        return Failure("InvalidInput", f"Prompt and media do not fit: {said}", "Shorten the prompt, or lower fps.")
    if status < 500 and NO_ANSWER in said:
        return Failure(
            "InvalidInput", f"No answer can fit jsonSchema: {said}", "Mend the schema: it contradicts itself."
        )
    if status == _TOO_LARGE:
        remedy = "Lower fps, look at a part (start, end), or let the server and its proxy take larger requests."
        return Failure("InvalidInput", f"The request is larger than the server takes (HTTP 413): {said}", remedy)
    if status < 500 and _TOO_MANY.search(said):
        remedy = "Ask about fewer files at once, or start the server with a higher --limit-mm-per-prompt."
        return Failure("InvalidInput", f"The server takes fewer files at once: {said}", remedy)
    kind = ServerFault if status >= 500 else Failure
    return kind(
        "EngineFailed",
        f"The engine refused the request (HTTP {status}): {said}",
        "Try it again; if it fails again, report it with the worker's log.",
        retryable=status >= 500,
    )


def said_by(response: httpx2.Response) -> str:
    """The message of an error, or the beginning of whatever was answered."""
    try:
        error = response.json()["error"]
        return str(error["message"])[:_SAID_LIMIT]
    except (ValueError, KeyError, TypeError):
        return response.text[:_SAID_LIMIT]
