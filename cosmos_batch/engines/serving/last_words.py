"""What a server that ended had said: of memory, and which errors."""

import re

from cosmos_batch.engines.journal import plain_lines
from cosmos_batch.engines.serving.server import Server

# Before it loads weights, where another program, or what it followed, holds what it is to take: vLLM's words.
_NOT_FREE = re.compile(r"Free memory on device .* is less than desired GPU memory utilization")
_OUT_OF_MEMORY = re.compile(
    r"out of memory|OutOfMemoryError|No available memory for the cache|larger than the available KV cache memory|"
    + _NOT_FREE.pattern,
    re.IGNORECASE,
)
_FATAL_LINE = re.compile(r"\b(ERROR|CRITICAL|\w*Error:|\w*Exception:)")
_REASON = re.compile(r"\b\w*(Error|Exception): \S.*")
_LINE_LIMIT, _KEPT_ERRORS = 300, 10


def ran_out_of_memory(server: Server) -> bool:
    """Whether it ended for want of a GPU's memory."""
    return any(_OUT_OF_MEMORY.search(line) for line in server.last_lines)


def found_memory_held(server: Server) -> bool:
    """Whether others held the memory that it was to take."""
    return any(_NOT_FREE.search(line) for line in server.last_lines)


def last_errors(server: Server) -> list[str]:
    """Its last words that are errors, short: what a dying server dumps besides may hold prompts."""
    return [line[:_LINE_LIMIT] for text in server.last_lines for line in plain_lines(text) if _FATAL_LINE.search(line)][
        -_KEPT_ERRORS:
    ]


def reasons(server: Server) -> list[str]:
    """The errors that it names, each once, without what leads to them."""
    found = (_REASON.search(line) for text in server.last_lines for line in plain_lines(text))
    return list(dict.fromkeys(one[0][:_LINE_LIMIT] for one in found if one))
