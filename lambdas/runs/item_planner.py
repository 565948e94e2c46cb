"""Turn an item of a run into a job, whose id follows from what is asked of which version of which file.

So the same item of another run, or of the same run once more, is the same job, and an answer is found again.
"""

import hashlib
import json
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta

from cosmos_batch.contract.environment import DeployedQueue, PlanningEnvironment
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.identity import Identity
from cosmos_batch.contract.job import InputFile, Job, OutputKey
from cosmos_batch.contract.parameters import Parameters
from cosmos_batch.contract.request import Request
from cosmos_batch.contract.runs import TABLE_ONLY, PlannedItem, RunItem, RunRequest
from cosmos_batch.contract.s3 import S3Location, join_below, parse_uri
from cosmos_batch.contract.settings import QUEUE_DAYS
from cosmos_batch.planning.requests import refuse_passed_deadline
from cosmos_batch.state import Jobs, ReservedKeys
from lambdas.planning.generator import plan_generation
from lambdas.planning.plan import Execution, reserve_document
from lambdas.planning.reasoner import plan_question
from lambdas.planning.work import Work

DIGITS = 32
# An item that has not ended a day before SQS deletes its message fails with an error that says so.
LONGEST_WAIT = timedelta(days=QUEUE_DAYS - 1)


class ItemPlanner:
    """Plans the items of one shard."""

    def __init__(
        self,
        run: RunRequest,
        queue: DeployedQueue,
        identity: Identity,
        execution: Execution,
        environment: PlanningEnvironment,
        jobs: Jobs,
        reserved_keys: ReservedKeys,
    ) -> None:
        self._run = run
        self._queue = queue
        self._identity = identity
        self._execution = execution
        self._environment = environment
        self._jobs = jobs
        self._reserved_keys = reserved_keys
        self._asked_of: Counter[str | None] = Counter()
        self._lock = threading.Lock()

    def plan(self, item: RunItem) -> PlannedItem:
        """Return the job of an item, or the error for which it is refused. Faults of AWS are raised."""
        try:
            return PlannedItem(item=item, job=self._job(item))
        except Failure as failure:
            return PlannedItem(item=item, error=failure.error)

    def _job(self, item: RunItem) -> Job:
        request = request_of(self._run, item, self._queue.id)
        deadline = self._deadline(request)
        # The id of a long text is part of the item's: another caller, or a later try, asks the same.
        stable_request = request.model_copy(update={"deadline": None, "caller": None})
        text_id = _id_of_digest(
            "text", stable_request.model_dump(mode="json", exclude={"input", "output", "input_version_id"})
        )
        if self._queue.serving is None:
            work = plan_question(request, text_id, self._environment, self._queue.identity.engine)
        else:
            if self._run.table_only:
                raise Failure("InvalidInput", "tableOnly: a generator makes files.", "Leave it out, or set `output`.")
            work = plan_generation(request, text_id, self._environment, self._queue.identity.model, self._queue.serving)
        _refuse_other_states(item, work)
        job = Job(
            job_id="item",
            execution_arn=self._execution.arn,
            pipeline=self._queue.id,
            document=OutputKey(bucket=self._environment.state_bucket, key=TABLE_ONLY),
            timestamp=f"{self._execution.started_at:%Y%m%d-%H%M%S}",
            created_at=self._execution.started_at,
            deadline=deadline,
            invalidate_model=self._run.invalidate_model,
            planned_for=self._identity,
            input=work.input,
            **work.fields,
        )
        directory = None if self._run.table_only else self._directory(item, work)
        job = job.model_copy(update={"job_id": job_id_of(job, directory)})
        return job if directory is None else self._with_document(job, work, directory)

    def _deadline(self, request: Request) -> datetime:
        """Return until when the item may wait: not until the deadline of a run that goes on for longer.

        Raises Failure (TimedOut) where the run's deadline has passed. Another run may ask the same item with a later
        deadline, so the error is one that can pass.
        """
        latest = datetime.now(UTC) + LONGEST_WAIT
        deadline = latest if request.deadline is None else min(request.deadline, latest)
        try:
            refuse_passed_deadline(deadline)
        except Failure as passed:
            raise Failure(
                passed.error.code,
                f"{passed.error.message} The item had not been sent to a worker by then.",
                f"`cosmos-batch runs retry {self._run.id} --failed` asks it again, without this deadline.",
                passed.error.retryable,
            ) from passed
        return deadline

    def _with_document(self, job: Job, work: Work, directory: S3Location) -> Job:
        """Return the job with the key of its document: that of an earlier run, or a new one that no other job has."""
        row = self._jobs.get(job.job_id)
        if row is not None:
            place = parse_uri(row.document)
            return job.model_copy(update={"document": OutputKey(bucket=place.bucket, key=place.key)})
        document, timestamp = reserve_document(
            work,
            directory,
            self._execution.started_at + self._earlier_items_of(job),
            job.job_id,
            self._reserved_keys,
            self._environment.asset_buckets,
        )
        return job.model_copy(update={"document": document, "timestamp": timestamp})

    def _earlier_items_of(self, job: Job) -> timedelta:
        """Return a second for each earlier item of the shard about the same file: each takes one as its timestamp."""
        with self._lock:
            file = None if job.input is None else job.input.uri
            self._asked_of[file] += 1
            return timedelta(seconds=self._asked_of[file] - 1)

    def _directory(self, item: RunItem, work: Work) -> S3Location:
        """Return the folder of the document: the item's own, or beside the input, or below the run's `output`.

        There it lies as the input does below `input_root`.
        """
        run, file = self._run, work.input
        if item.output is not None:
            return parse_uri(item.output)
        if run.output is None:
            if file is None:
                raise Failure(
                    "InvalidInput", "output: is missing, and there is no input.", "Name a prefix as `output`."
                )
            return S3Location(file.bucket, file.key.rpartition("/")[0])
        prefix = parse_uri(run.output)
        if file is None or run.input_root is None:
            return prefix
        root = parse_uri(run.input_root)
        folder = file.key.rpartition("/")[0] + "/"
        inside = file.bucket == root.bucket and folder.startswith(root.key)
        return S3Location(prefix.bucket, join_below(prefix.key, folder[len(root.key) :] if inside else ""))


def request_of(run: RunRequest, item: RunItem, pipeline: str) -> Request:
    """Return the request of an item: its own fields, and the run's for those that it leaves out."""
    parameters = item.parameters or Parameters()
    generation = run.generation
    if item.generation is not None:
        generation = item.generation if generation is None else generation.overridden_by(item.generation)
    changes = {name: getattr(parameters, name) for name in parameters.model_fields_set}
    return Request(
        pipeline=pipeline,
        input=item.input,
        input_version_id=item.version_id,
        prompt=run.prompt if item.prompt is None else item.prompt,
        system_prompt=run.system_prompt if item.system_prompt is None else item.system_prompt,
        parameters=run.parameters.model_copy(update=changes),
        generation=generation,
        output=run.output if item.output is None else item.output,
        invalidate_model=run.invalidate_model,
        deadline=run.deadline,
        caller=run.caller,
    )


def job_id_of(job: Job, directory: S3Location | None) -> str:
    """Return the id of an item's job: a digest of all that its answer depends on, and of where it is written.

    The commit of the model is not in it, because it is not known before the first worker has loaded the model;
    `Jobs.watch` compares it.
    """
    changing = {"job_id", "execution_arn", "document", "timestamp", "created_at", "deadline", "planned_for"}
    identity = job.planned_for.model_dump(mode="json", exclude={"revision"}) if job.planned_for is not None else None
    place = TABLE_ONLY if directory is None else directory.uri
    return _id_of_digest("item", [job.model_dump(mode="json", exclude=changing), identity, place])


def _id_of_digest(kind: str, value: object) -> str:
    """Return an id that begins with `kind` and ends with a digest of `value`, which must be JSON."""
    text = json.dumps(value, sort_keys=True)
    return f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:DIGITS]}"


def _refuse_other_states(item: RunItem, work: Work) -> None:
    """Raise Failure where a file has changed since it was listed. A version cannot change."""
    if work.input is not None and item.version_id is None:
        _refuse_other_state(work.input, item.etag)
    if item.more_etags:
        for file, etag in zip(work.fields["more_inputs"], item.more_etags, strict=True):
            _refuse_other_state(file, etag)


def _refuse_other_state(file: InputFile, etag: str | None) -> None:
    if etag is not None and file.etag.strip('"') != etag.strip('"'):
        raise Failure(
            "InvalidInput",
            f"{file.uri} has changed since the run was planned.",
            "Start a new run, which lists the file as it is now.",
        )
