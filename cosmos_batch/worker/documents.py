"""The reasoner's document, from an answer."""

from datetime import UTC, datetime

from cosmos_batch.catalogue.pipelines import size_of
from cosmos_batch.contract.document import JOB_LOGS_LIMIT, MoreInput, ReasonerDocument
from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Answer
from cosmos_batch.worker.resident_model import ResidentModel

_CUT = "\n[...]\n"


def compose(
    environment: WorkerEnvironment, model: ResidentModel, job: Job, answer: Answer, timings: dict[str, float]
) -> ReasonerDocument:
    """`timings` (seconds by phase) are the worker's; the engine's own come with its answer."""
    assert job.prompt is not None and job.user_prompt is not None, "prepare has read both"
    timings = {**waited(job), **timings, **answer.timings}
    return ReasonerDocument(
        model=model.stored.model,
        model_size=size_of(model.stored.model),
        input_file=job.inputs[0].name,
        timestamp=job.timestamp,
        system_prompt=job.system_prompt,
        user_prompt=job.user_prompt,
        result=answer.text,
        job_logs=job_logs(model.engine.startup_logs, answer.logs, timings),
        reasoning=answer.reasoning,
        notes=answer.notes,
        data=answer.data,
        data_error=answer.data_error,
        input_uri=job.inputs[0].uri,
        question=job.prompt,
        job_id=job.job_id,
        pipeline=job.pipeline,
        revision=model.stored.commit,
        engine=model.engine.name,
        finish_reason=answer.finish_reason,
        usage=answer.usage,
        timings=timings,
        parameters=job.parameters,
        input_version_id=job.inputs[0].version_id,
        more_inputs=[
            MoreInput(input_file=one.name, input_uri=one.uri, input_version_id=one.version_id)
            for one in job.more_inputs
        ],
        batch_job_id=environment.aws_batch_job_id,
    )


def waited(job: Job) -> dict[str, float]:
    """From the start of the execution to now, the answer in hand."""
    return {"total": round((datetime.now(UTC) - job.created_at).total_seconds(), 3)}


def job_logs(startup: list[str], own: list[str], timings: dict[str, float]) -> str:
    """The engine's start-up lines, this request's lines, its timings; what is too long loses its middle."""
    lines = [*startup, *own, *(f"{phase}: {seconds:.3f} s" for phase, seconds in timings.items())]
    text = "\n".join(lines).encode(errors="replace")
    if len(text) <= JOB_LOGS_LIMIT:
        return text.decode()
    half = (JOB_LOGS_LIMIT - len(_CUT)) // 2
    return text[:half].decode(errors="ignore") + _CUT + text[-half:].decode(errors="ignore")
