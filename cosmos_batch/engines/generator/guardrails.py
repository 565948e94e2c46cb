"""What it means that guardrails are not there, or do not load."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.job import Job
from cosmos_batch.engines.protocol import Engine, GuardrailEngine

# A traceback through `cosmos_guardrail`, what vLLM-Omni has of it, or Cosmos Framework's own.
_THROUGH_GUARDRAILS = re.compile(
    r'File "[^"]*/(cosmos_guardrail/|cosmos3/guardrails\.py|auxiliary/guardrail/|engines/strict_guardrails\.py)'
)
GUARDRAIL_PACKAGE = "cosmos_guardrail"
"""NVIDIA's package, which Diffusers and vLLM-Omni use."""


def refuse_unguarded(engine: Engine, job: Job, required: bool) -> None:
    """Raise Failure where a job would be made unchecked by mistake: it asks for guardrails and its engine has none, or
    it goes without them and its pipeline requires them."""
    if job.generation is None:
        return
    if required and not job.generation.guardrails:
        raise Failure(
            "InvalidInput",
            f"{job.pipeline} requires guardrails, and the job was planned to do without them.",
            "Ask again: jobs that are planned from now on have guardrails.",
        )
    if job.generation.guardrails and not (isinstance(engine, GuardrailEngine) and engine.guardrails):
        raise guardrails_missing(engine.name)


def guardrails_missing(engine: str) -> Failure:
    """The job is in order; who was to do it has no guardrails."""
    return Failure(
        "EngineFailed",
        f"{engine} has no guardrails here, and the job asks for them.",
        "Use an engine that has some (Diffusers needs the package cosmos_guardrail, which its image has), or switch "
        "them off for the whole pipeline: `guardrails` in config.json.",
    )


def guardrails_failed(why: str) -> Failure:
    """The model may be in order; its guardrails are not."""
    return Failure(
        "EngineFailed",
        f"The guardrails could not be loaded: {why}",
        "See the worker's log. Or do without guardrails: set `guardrails` of the pipeline to false, below "
        "app.pipelines.useNvidiaCosmos3.modelsOmni in config.json, and deploy.",
    )


@contextmanager
def explain_guardrail_failures(lines: Callable[[], Sequence[str]]) -> Iterator[None]:
    """Say so where a server, which printed these lines, did not start for their sake."""
    try:
        yield
    except Failure as failure:
        of_memory = failure.error.code == "ModelUnavailable"
        if of_memory or not any(_THROUGH_GUARDRAILS.search(line) for line in lines()):
            raise
        raise guardrails_failed(failure.error.message) from failure
