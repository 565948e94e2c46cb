"""The JSON documents that are stored as results: a reasoner's answer, and the sidecar of generated files."""

from datetime import UTC, datetime

from cosmos_batch.catalogue.pipelines import RANDOM_WEIGHTS, attribution_of, size_of
from cosmos_batch.contract.document import JOB_LOGS_LIMIT, MoreInput, ReasonerDocument
from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.contract.generation.document import DocumentedFile, DocumentedGuardrails, GeneratorDocument
from cosmos_batch.contract.generation.origin import DocumentedInput, Origin
from cosmos_batch.contract.generation.serving import engine_label
from cosmos_batch.contract.job import InputFile, Job
from cosmos_batch.contract.result import Answer, GeneratorOutput
from cosmos_batch.engines.protocol import LossyEngine
from cosmos_batch.worker.costs import cost_of
from cosmos_batch.worker.resident_model import ResidentModel

UNGUARDED = "The guardrails were off: neither prompt nor output was checked."
UNVERIFIED = (
    "The server was to check prompt and output, and does not report whether it did: guardrails of vLLM-Omni, for one, "
    "pass what they could not judge."
)
NOISE = "The weights are random: the output is noise. It only shows how a job runs."
LOSSY = "Made with {}: faster, and not what the exact engine makes. Its quality has not been evaluated."
LOSSY_ANSWER = (
    "Answered with {}: faster, and not always what the model answers without it. Its quality has not been evaluated."
)
_CUT = "\n[...]\n"


def reasoner_document(
    environment: WorkerEnvironment,
    model: ResidentModel,
    job: Job,
    answer: Answer,
    file_notes: list[str],
    timings: dict[str, float],
) -> ReasonerDocument:
    """Return an answer's document.

    `file_notes` is what the worker noticed in the input files, `timings` are the worker's, in seconds by phase; the
    answer has the engine's.
    """
    assert job.prompt is not None and job.user_prompt is not None, "`prepare` has read both"
    timings = {**_total(job), **timings, **answer.timings}
    lossy = _lossy(model)
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
        notes=[*file_notes, *answer.notes, *_lossy_answer(lossy)],
        frame_times=answer.frame_times,
        data=answer.data,
        data_error=answer.data_error,
        input_uri=job.inputs[0].uri,
        question=job.prompt,
        job_id=job.job_id,
        pipeline=job.pipeline,
        revision=model.stored.commit,
        engine=model.engine.name,
        lossy=lossy,
        finish_reason=answer.finish_reason,
        usage=answer.usage,
        timings=timings,
        parameters=job.parameters,
        input_version_id=job.inputs[0].version_id,
        more_inputs=[
            MoreInput(input_file=file.name, input_uri=file.uri, input_version_id=file.version_id)
            for file in job.more_inputs
        ],
        batch_job_id=environment.aws_batch_job_id,
        attribution=attribution_of(model.stored.model),
    )


def generator_document(
    environment: WorkerEnvironment,
    model: ResidentModel,
    job: Job,
    output: GeneratorOutput,
    files: list[DocumentedFile],
    check_notes: list[str],
    timings: dict[str, float],
) -> GeneratorDocument:
    """Return the document of generated files.

    `check_notes` is what the worker noticed in them and in the input files, `timings` are the worker's, in seconds by
    phase.
    """
    generation = output.generation
    cost = cost_of(environment, output.timings.get("generate", timings["infer"]))
    timings = {**_total(job), **timings, **output.timings}
    return GeneratorDocument(
        model=model.stored.model,
        model_size=size_of(model.stored.model),
        revision=model.stored.commit,
        engine=model.engine.name,
        lossy=_lossy(model),
        pipeline=job.pipeline,
        job_id=job.job_id,
        timestamp=job.timestamp,
        input=None if job.input is None else _documented(job.input),
        more_inputs=[_documented(file) for file in job.more_inputs],
        generation=generation,
        guardrails=DocumentedGuardrails(
            requested=generation.guardrails,
            required=environment.serving is not None and environment.serving.guardrails_required,
            verdicts=output.checks,
        ),
        files=files,
        notes=_notes(job, model, output, check_notes),
        facts=output.facts,
        timings=timings,
        **cost._asdict(),
        job_logs=job_logs(model.engine.startup_logs, output.logs, timings),
        batch_job_id=environment.aws_batch_job_id,
    )


def _notes(job: Job, model: ResidentModel, output: GeneratorOutput, check_notes: list[str]) -> list[str]:
    lossy = _lossy(model)
    is_unverified = "notVerified" in (output.checks.prompt, output.checks.output)
    return [
        *output.generation.notes,
        *output.notes,
        *check_notes,
        *([UNVERIFIED] if is_unverified else [] if output.generation.guardrails else [UNGUARDED]),
        *([NOISE] if model.stored.model.startswith(RANDOM_WEIGHTS) else []),
        *([LOSSY.format(" and ".join(lossy))] if lossy else []),
        *([] if job.origin is None else _difference_to(job.origin, model)),
    ]


def _documented(file: InputFile) -> DocumentedInput:
    return DocumentedInput(uri=file.uri, version_id=file.version_id)


def _lossy_answer(modes: list[str]) -> list[str]:
    """Return the note on modes that change the answer. A clip that the GPU decoded has a note of its own."""
    changing = [mode for mode in modes if mode != "gpuDecode"]
    return [LOSSY_ANSWER.format(" and ".join(changing))] if changing else []


def _lossy(model: ResidentModel) -> list[str]:
    return list(model.engine.lossy) if isinstance(model.engine, LossyEngine) else []


def _difference_to(origin: Origin, model: ResidentModel) -> list[str]:
    """Return a note if a repeated generation has another engine, model or commit than the original had."""
    before = f"{origin.engine} with {origin.model} at {origin.revision}"
    now = f"{engine_label(model.engine.name, _lossy(model))} with {model.stored.model} at {model.stored.commit}"
    return [] if now == before else [f"Made by {now}; the original, by {before}: the result is not the same."]


def _total(job: Job) -> dict[str, float]:
    """Return the seconds since the execution started, as the timing `total`."""
    return {"total": round((datetime.now(UTC) - job.created_at).total_seconds(), 3)}


def job_logs(startup_lines: list[str], job_lines: list[str], timings: dict[str, float]) -> str:
    """Return the engine's lines from its start and about this job, and the timings, as one text of limited length.

    A text over `JOB_LOGS_LIMIT` bytes loses its middle.
    """
    lines = [*startup_lines, *job_lines, *(f"{phase}: {seconds:.3f} s" for phase, seconds in timings.items())]
    text = "\n".join(lines).encode(errors="replace")
    if len(text) <= JOB_LOGS_LIMIT:
        return text.decode()
    half = (JOB_LOGS_LIMIT - len(_CUT)) // 2
    return text[:half].decode(errors="ignore") + _CUT + text[-half:].decode(errors="ignore")
