"""Plan the job of an execution, and say what the state machine needs to send it to its pipeline's queue."""

import hashlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from cosmos_batch.contract.environment import PipelineQueue, PlanEnvironment
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.identity import Identity
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.request import Request
from cosmos_batch.state import Callbacks, Jobs, Revisions
from lambdas.clients import state_table
from lambdas.log import log
from lambdas.planning.generating import plan_generation
from lambdas.planning.jobs import Execution, plan_job, read_request
from lambdas.scaling.nudges import nudge_for_work

SHORTEST_WAIT = 2  # seconds: the heartbeat limit is one less, and at least one

# The last version of the state machine that does not say its version to `plan`. It writes this number into its
# messages, and workers that were deployed with it refuse a job with fields that they do not know.
BEFORE_IDENTITIES = 3
FIELDS_BEFORE_IDENTITIES = {
    *("job_id", "execution_arn", "pipeline", "input", "more_inputs", "prompt", "prompt_uri", "system_prompt"),
    *("parameters", "generation", "origin", "document", "timestamp", "created_at", "deadline", "invalidate_model"),
}


def plan_execution(
    event: dict[str, Any], environment: PlanEnvironment, enabled_queues: Callable[[], Mapping[str, PipelineQueue]]
) -> dict[str, Any]:
    """Plan the job of an execution, store it, and return what the state machine needs to send it. Raises Failure.

    `enabled_queues` returns the queues of the enabled pipelines by the pipeline's id.
    """
    execution = Execution.read(event["execution"])
    table = state_table(environment.state_table)
    keep_callback(Callbacks(table), execution.name, event["request"])
    request = read_request(event["request"])
    refuse_faults(request)
    queue = enabled_queue(request.pipeline, enabled_queues())
    if queue.serving is None:
        job = plan_job(request, execution, environment)
    else:
        job = plan_generation(request, execution, environment, queue.serving)
    job = job.model_copy(update={"planned_for": identity_of(queue, request, Revisions(table, queue.id))})
    Jobs(table).create(job)
    nudge_for_work(environment.nudge_queue_url, job.pipeline)
    log("planned", jobId=job.job_id, pipeline=job.pipeline)
    body = message_body(job, event.get("schemaVersion", BEFORE_IDENTITIES))
    return {**enqueueable(job, queue), "job": body, "messageGroup": message_group(request)}


def keep_callback(callbacks: Callbacks, job_id: str, request: object) -> None:
    """Store a token that a person typed, before anything can be refused: the refusal must reach it."""
    token = request.get("callback") if isinstance(request, dict) else None
    if isinstance(token, str) and token:
        callbacks.keep(job_id, token)


def refuse_faults(request: Request) -> None:
    """Raises Failure where `upload` found faults: an answer to half of what was said is not what was asked for."""
    if request.faults:
        raise Failure(
            "InvalidInput",
            " ".join(request.faults),
            "Correct the file's metadata, tags or sidecar and upload it again; docs/reasoner.md and docs/generator.md "
            "name all settings.",
        )


def enabled_queue(pipeline: str, queues: Mapping[str, PipelineQueue]) -> PipelineQueue:
    """The queue of a pipeline. Raises Failure, which names those that are enabled."""
    if pipeline not in queues:
        raise Failure(
            "InvalidInput",
            f"Pipeline {pipeline!r} is not enabled here.",
            f"Use one of: {', '.join(queues)}; or enable it in config.json and deploy.",
        )
    return queues[pipeline]


def identity_of(queue: PipelineQueue, request: Request, revisions: Revisions) -> Identity:
    """What has to answer the job: the commit is the configured or the recorded one.

    A job that asks for a new copy of the model moves the recorded commit itself, so it names none.
    """
    if queue.identity.revision is not None or request.invalidate_model:
        return queue.identity
    recorded = revisions.get(queue.identity.model, queue.revision)
    return queue.identity.model_copy(update={"revision": None if recorded is None else recorded.commit})


def message_group(request: Request) -> str:
    """By whom SQS tells callers apart: one whose jobs fill the queue does not make the others wait.

    A group's name is limited in length and characters, and says nothing of who it is.
    """
    return hashlib.sha256((request.caller or "").encode()).hexdigest()[:32]


def message_body(job: Job, schema_version: int) -> dict[str, Any]:
    """The job as the workers read it for whom the execution's state machine was deployed.

    During a deployment `plan` is updated before the state machine, and executions that began before it keep their
    definition: their messages may be read by workers of before.
    """
    if schema_version > BEFORE_IDENTITIES:
        return job.model_dump(mode="json")
    # Without what is at its default, so that neither parameters nor generations have fields that are newer than that.
    return job.model_dump(mode="json", include=FIELDS_BEFORE_IDENTITIES, exclude_defaults=True)


def enqueueable(job: Job, queue: PipelineQueue) -> dict[str, Any]:
    """What the state machine needs to send the job and to wait for its end.

    A heartbeat limit shorter than the wait would end jobs that wait for a worker's cold start.
    """
    seconds = max(SHORTEST_WAIT, int((job.deadline - datetime.now(UTC)).total_seconds()))
    return {
        "queueUrl": queue.queue_url,
        "timeoutSeconds": seconds,
        "heartbeatSeconds": seconds - 1,
        "jobId": job.job_id,
    }
