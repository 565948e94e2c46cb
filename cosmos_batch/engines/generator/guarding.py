"""What it means that guardrails do not load."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from cosmos_batch.contract.error import Failure

# A traceback through `cosmos_guardrail`, what vLLM-Omni has of it, or Cosmos Framework's own.
_THROUGH_GUARDRAILS = re.compile(r'File "[^"]*/(cosmos_guardrail/|cosmos3/guardrails\.py|auxiliary/guardrail/)')


def guardrails_failed(why: str) -> Failure:
    """The model may be in order; its guardrails are not."""
    return Failure(
        "EngineFailed",
        f"The guardrails could not be loaded: {why}",
        "See the worker's log. Or do without guardrails: set `guardrails` of the pipeline to false, below "
        "app.pipelines.useNvidiaCosmos3.modelsOmni in config.json, and deploy.",
    )


@contextmanager
def explaining_guardrails(lines: Callable[[], Sequence[str]]) -> Iterator[None]:
    """Say so where a server, which printed these lines, did not start for their sake."""
    try:
        yield
    except Failure as failure:
        of_memory = failure.error.code == "ModelUnavailable"
        if of_memory or not any(_THROUGH_GUARDRAILS.search(line) for line in lines()):
            raise
        raise guardrails_failed(failure.error.message) from failure
