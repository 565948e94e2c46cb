"""Plan the job of an execution: read the request, settle the work, make and store the job, and say where to send it."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from pydantic import TypeAdapter

from cosmos_batch.contract.base import Time
from cosmos_batch.contract.environment import DeployedQueue, PlanEnvironment
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.identity import Identity
from cosmos_batch.contract.job import Job, OutputKey
from cosmos_batch.contract.request import Request
from cosmos_batch.contract.s3 import S3Location, allowed, join_below, parse_uri, relative_directory
from cosmos_batch.planning.requests import read_request, settle_deadline
from cosmos_batch.state import Callbacks, Jobs, ReservedKeys, Revisions
from cosmos_batch.state.reserved_keys import SECONDS_TRIED
from lambdas.clients import state_table
from lambdas.log import log
from lambdas.planning.generator import plan_generation
from lambdas.planning.reasoner import plan_question
from lambdas.planning.work import Work
from lambdas.scaling.nudges import nudge_for_work

SHORTEST_WAIT = 2  # seconds: the heartbeat limit is one less, and at least one

# The last version of the state machine that does not send its version to `plan`. It writes this number into its
# messages, and workers that were deployed with it refuse a job with fields that they do not know.
BEFORE_IDENTITIES = 3
FIELDS_BEFORE_IDENTITIES = {
    *("job_id", "execution_arn", "pipeline", "input", "more_inputs", "prompt", "prompt_uri", "system_prompt"),
    *("parameters", "generation", "origin", "document", "timestamp", "created_at", "deadline", "invalidate_model"),
}


@dataclass(frozen=True)
class Execution:
    """The execution of the state machine that a job is planned for. Its name is the job's id."""

    arn: str
    name: str
    started_at: datetime

    @classmethod
    def read(cls, context: dict[str, Any]) -> Self:
        """Read the part `Execution` of the state machine's context object."""
        started_at = TypeAdapter(Time).validate_python(context["startTime"])
        return cls(arn=context["id"], name=context["name"], started_at=started_at.astimezone(UTC))


def plan_execution(
    event: dict[str, Any], environment: PlanEnvironment, enabled_queues: Callable[[], Mapping[str, DeployedQueue]]
) -> dict[str, Any]:
    """Plan the job of an execution, store it, and return what the state machine needs to send it. Raises Failure.

    `enabled_queues` returns the queues of the enabled pipelines by the pipeline's id.
    """
    execution = Execution.read(event["execution"])
    table = state_table(environment.state_table)
    keep_callback(Callbacks(table), execution.name, event["request"])
    request = read_request(event["request"])
    queue = enabled_queue(request.pipeline, enabled_queues())
    deadline = settle_deadline(request, execution.started_at, environment.deadline_seconds)
    if queue.serving is None:
        work = plan_question(request, execution.name, environment, queue.identity.engine)
    else:
        work = plan_generation(request, execution.name, environment, queue.identity.model, queue.serving)
    identity = identity_of(queue, request.invalidate_model, Revisions(table, queue.id))
    job = _make_job(work, request, execution, deadline, identity, ReservedKeys(table), environment.asset_buckets)
    Jobs(table).create(job)
    nudge_for_work(environment.nudge_queue_url, job.pipeline)
    log("planned", jobId=job.job_id, pipeline=job.pipeline)
    return _sending_of(job, queue, request.caller, event.get("schemaVersion", BEFORE_IDENTITIES))


def keep_callback(callbacks: Callbacks, job_id: str, request: object) -> None:
    """Store the task token in a request before anything can be refused, so that a refusal can answer it."""
    token = request.get("callback") if isinstance(request, dict) else None
    if isinstance(token, str) and token:
        callbacks.keep(job_id, token)


def enabled_queue(pipeline: str, queues: Mapping[str, DeployedQueue]) -> DeployedQueue:
    """Return the queue of a pipeline. Raises Failure (InvalidInput) that names the enabled ones."""
    if pipeline not in queues:
        raise Failure(
            "InvalidInput",
            f"Pipeline {pipeline!r} is not enabled here.",
            f"Use one of: {', '.join(queues)}; or enable it in config.json and deploy.",
        )
    return queues[pipeline]


def _make_job(
    work: Work,
    request: Request,
    execution: Execution,
    deadline: datetime,
    identity: Identity,
    reserved_keys: ReservedKeys,
    roots: list[str],
) -> Job:
    """Return the job, with a key for its document that no other job has. Raises Failure."""
    directory = _document_directory(work, request.asset_id)
    document, timestamp = reserve_document(work, directory, execution.started_at, execution.name, reserved_keys, roots)
    return Job(
        job_id=execution.name,
        execution_arn=execution.arn,
        pipeline=request.pipeline,
        document=document,
        timestamp=timestamp,
        created_at=execution.started_at,
        deadline=deadline,
        invalidate_model=request.invalidate_model,
        planned_for=identity,
        input=work.input,
        **work.fields,
    )


def reserve_document(
    work: Work, directory: S3Location, start: datetime, job_id: str, reserved_keys: ReservedKeys, roots: list[str]
) -> tuple[OutputKey, str]:
    """Return the key of a document in a folder and the timestamp in it: the first second from `start` that is free.

    Raises Failure.
    """

    def key_at(timestamp: str) -> OutputKey:
        try:
            key = work.document_key(directory.key, timestamp)
        except ValueError as error:
            raise Failure("InvalidInput", f"output: {error}.", "Use a shorter output prefix.") from error
        document = S3Location(directory.bucket, key)
        if not allowed(document, roots):
            raise Failure(
                "InvalidInput",
                f"output: {document.uri} lies outside of the configured buckets.",
                f"Write below one of: {', '.join(roots)}.",
            )
        return OutputKey(bucket=document.bucket, key=document.key)

    reserved = reserved_keys.reserve_second(start, job_id, key_at)
    if reserved is None:
        raise Failure(
            "Internal",
            f"All names of the document in {directory.uri} within {SECONDS_TRIED} s are taken.",
            "Start again in a few minutes, or with another output prefix.",
            retryable=True,
        )
    return reserved


def _document_directory(work: Work, asset_id: str | None) -> S3Location:
    """Return the folder of the document: beside the input, or below the output prefix as the input is in its asset."""
    if work.output is None:
        if work.input is None:
            raise Failure(
                "InvalidInput",
                "output: is missing, and there is no input beside which the result could lie.",
                'Say where: "output": "s3://my-bucket/folder/".',
            )
        return S3Location(work.input.bucket, work.input.key.rpartition("/")[0])
    prefix = parse_uri(work.output)
    if work.input is None:
        return prefix
    return S3Location(prefix.bucket, join_below(prefix.key, relative_directory(work.input.key, asset_id)))


def identity_of(queue: DeployedQueue, invalidate_model: bool, revisions: Revisions) -> Identity:
    """Return the model and configuration that must do the job. Its commit is the configured or the recorded one.

    A job that requests a new copy of the model changes the recorded commit itself, so it names none.
    """
    if queue.identity.revision is not None or invalidate_model:
        return queue.identity
    recorded = revisions.get(queue.identity.model, queue.revision)
    return queue.identity.model_copy(update={"revision": None if recorded is None else recorded.commit})


def _sending_of(job: Job, queue: DeployedQueue, caller: str | None, schema_version: int) -> dict[str, Any]:
    """Return what the state machine needs to send the job to the workers and to wait for its end.

    The heartbeat limit is as long as the wait, because a job that waits for a worker's cold start has no heartbeat.
    """
    seconds = max(SHORTEST_WAIT, int((job.deadline - datetime.now(UTC)).total_seconds()))
    return {
        "queueUrl": queue.queue_url,
        "timeoutSeconds": seconds,
        "heartbeatSeconds": seconds - 1,
        "jobId": job.job_id,
        "job": _message_body(job, schema_version),
        "messageGroup": message_group(caller),
    }


def _message_body(job: Job, schema_version: int) -> dict[str, Any]:
    """Return the job in a form that all workers can read for which the execution's state machine may send it.

    A deployment updates `plan` before the state machine, and executions that began earlier keep their definition: their
    messages may be read by workers of the earlier version.
    """
    if schema_version > BEFORE_IDENTITIES:
        return job.model_dump(mode="json")
    # Values at their default are left out, so that parameters and generations contain no field that is newer.
    return job.model_dump(mode="json", include=FIELDS_BEFORE_IDENTITIES, exclude_defaults=True)


def message_group(caller: str | None) -> str:
    """Return the message group of a caller. SQS serves groups fairly: a caller with many jobs does not delay others.

    It is a hash, because a group's name is limited in length and characters, and should not name the caller.
    """
    return hashlib.sha256((caller or "").encode()).hexdigest()[:32]
