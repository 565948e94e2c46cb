"""vLLM's wording: what its server prints, counts and answers."""

import contextlib
import re
from collections.abc import Iterable
from pathlib import Path

import httpx2

from cosmos_batch.contract.error import Failure
from cosmos_batch.engines import compile_cache
from cosmos_batch.engines.serving.dialect import Phases, ServerDialect
from cosmos_batch.engines.serving.server import Server
from cosmos_batch.engines.vllm import startup

# vLLM checks free memory before it loads weights.
_IN_USE = re.compile(r"Free memory on device .* is less than desired GPU memory utilization", re.IGNORECASE)
# Weights fit, and the key-value cache beside them does not.
_NO_CACHE = re.compile(r"No available memory for the cache|larger than the available KV cache memory", re.IGNORECASE)
_TOO_LONG = ("maximum context length", "max_model_len", "longer than the maximum")
_TOO_MANY_MEDIA = re.compile(r"At most \d+ (image|video|audio)")
_UNSATISFIABLE = "Unsatisfiable schema"


class VllmDialect(ServerDialect):
    """The wording of vLLM's releases 0.19 to 0.32."""

    def ran_out_of_memory(self, line: str) -> bool:
        """Return True also if the cache does not fit beside the weights, or other processes hold the memory."""
        return super().ran_out_of_memory(line) or bool(_NO_CACHE.search(line)) or self.found_memory_in_use(line)

    def found_memory_in_use(self, line: str) -> bool:
        """Return whether vLLM's check of free memory, before it loads weights, has failed."""
        return _IN_USE.search(line) is not None

    def loaded_weights(self, line: str) -> bool:
        """Return whether this is the line with the seconds that loading took."""
        return startup.WEIGHTS.search(line) is not None

    def reports_phase(self, line: str) -> bool:
        """Return whether the line names a phase and how long it took."""
        return startup.reports_phase(line)

    def start_phases(self, lines: Iterable[str], total: float) -> Phases:
        """Return the seconds of each phase that vLLM prints; all other time is in `rest`."""
        return startup.start_phases(lines, total)

    def progress(self, server: Server, client: httpx2.Client) -> str | None:  # noqa: ARG002 - of the protocol
        """Return vLLM's own metrics: tokens, and cache memory that a prompt fills step by step.

        `/health` is of no use: a core that hangs does not change it. Metrics of Python and of the web server change
        without any work being done, so they are left out.
        """
        with contextlib.suppress(httpx2.TransportError):
            return "\n".join(line for line in client.get("/metrics").text.splitlines() if line.startswith("vllm:"))
        return None

    def refusal(self, message: str) -> Failure | None:
        """Recognize a prompt that is too long, a schema that no answer fits, and too many files."""
        if any(words in message for words in _TOO_LONG):
            return Failure(
                "InvalidInput",
                f"Prompt and media do not fit into the model's context: {message}",
                "Shorten the prompt, or lower fps.",
            )
        if self.contradicts_itself(message):
            remedy = "Correct the schema: it contradicts itself."
            return Failure("InvalidInput", f"No answer can fit jsonSchema: {message}", remedy)
        if _TOO_MANY_MEDIA.search(message):
            remedy = "Ask about fewer files at once, or start the server with a higher --limit-mm-per-prompt."
            return Failure("InvalidInput", f"The server takes fewer files at once: {message}", remedy)
        return None

    def contradicts_itself(self, message: str) -> bool:
        """Return whether the message has the words of llguidance, the grammar backend that our servers use."""
        return _UNSATISFIABLE in message


def cache_variables(folder: Path) -> dict[str, str]:
    """Return environment variables with which vLLM and the libraries below it keep compiled code in one folder."""
    return {"VLLM_CACHE_ROOT": str(folder / "vllm"), **compile_cache.cache_variables(folder)}
