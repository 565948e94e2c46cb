"""Errors about guardrails, the same for every engine: a job without the guardrails it needs, and a failed load.

The guardrails themselves are NVIDIA's, in each engine's library; `engines.strict_guardrails` makes them fail closed.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.job import Job
from cosmos_batch.engines.protocol import Engine, GuardrailEngine

# Source files in a traceback that show that guardrails raised it: those of `cosmos_guardrail`, of vLLM-Omni's wrapper
# around it, of Cosmos Framework's own guardrails, and ours.
_THROUGH_GUARDRAILS = re.compile(
    r'File "[^"]*/(cosmos_guardrail/|cosmos3/guardrails\.py|auxiliary/guardrail/|engines/strict_guardrails\.py)'
)
GUARDRAIL_PACKAGE = "cosmos_guardrail"
"""Name of NVIDIA's package of guardrails, which Diffusers and vLLM-Omni use."""


def refuse_unguarded(engine: Engine, job: Job, required: bool) -> None:
    """Raise Failure if a generation would run without guardrails that it must have.

    `required` says that the pipeline requires them now: a job that was planned without them is refused (InvalidInput).
    A job with guardrails is refused if the engine has not loaded any (EngineFailed).
    """
    if job.generation is None:
        return
    if required and not job.generation.guardrails:
        raise Failure(
            "InvalidInput",
            f"{job.pipeline} requires guardrails, and the job was planned to do without them.",
            "Send the job again: jobs that are planned from now on have guardrails.",
        )
    if job.generation.guardrails and not (isinstance(engine, GuardrailEngine) and engine.guardrails):
        raise guardrails_missing(engine.name)


def guardrails_missing(engine: str) -> Failure:
    """Return the error for a job with guardrails on an engine (by its name and version) that has none."""
    return Failure(
        "EngineFailed",
        f"{engine} has no guardrails here, and the job asks for them.",
        "Use an engine that has some (Diffusers needs the package cosmos_guardrail, which its image has), or switch "
        "them off for the whole pipeline: `guardrails` in config.json.",
    )


def guardrails_failed(why: str) -> Failure:
    """Return the error for guardrails that did not load. `why` is the cause; the generator itself may be fine."""
    return Failure(
        "EngineFailed",
        f"The guardrails could not be loaded: {why}",
        "See the worker's log. Or do without guardrails: set `guardrails` of the pipeline to false, below "
        "app.pipelines.useNvidiaCosmos3.modelsOmni in config.json, and deploy.",
    )


@contextmanager
def explain_guardrail_failures(lines: Callable[[], Sequence[str]]) -> Iterator[None]:
    """Turn the Failure of a starting server into `guardrails_failed` if its output names guardrails as the cause.

    `lines` returns what the server has printed. A lack of GPU memory (ModelUnavailable) stays as it is.
    """
    try:
        yield
    except Failure as failure:
        out_of_memory = failure.error.code == "ModelUnavailable"
        if out_of_memory or not any(_THROUGH_GUARDRAILS.search(line) for line in lines()):
            raise
        raise guardrails_failed(failure.error.message) from failure
