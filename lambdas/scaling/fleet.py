"""The workers of a pipeline: their rows in the state table, together with their jobs in Batch."""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from cosmos_batch.catalogue.pipelines import PIPELINE_TAG
from cosmos_batch.contract.environment import DeployedCompute
from cosmos_batch.contract.model_name import MAIN
from cosmos_batch.state import WorkerRow, Workers, outage_of
from lambdas.clients import client
from lambdas.scaling.batch_reasons import WorkerEnd, end_by_batch
from lambdas.scaling.breaker import FailedWorker

DESCRIBED_AT_ONCE = 100  # jobs in one call of DescribeJobs
OUTDATED = "Another deployment has taken its place."  # the reason that TerminateJob shows to people
# If Batch does not know a worker's job, the worker has ended once its row is this old. Batch forgets a job a week or
# more after its end, and knows a new one at once; a row that nobody has updated for 15 minutes is stale.
FORGOTTEN_AFTER = timedelta(minutes=15)


@dataclass(frozen=True)
class FleetWorker:
    """A worker: its row, and its job as DescribeJobs describes it; None where Batch does not know the job."""

    row: WorkerRow
    batch: dict[str, Any] | None

    @property
    def has_ended(self) -> bool:
        """Return whether its row or Batch says that it has ended, or Batch does not know it and its row is stale."""
        if self.row.state == "ENDED":
            return True
        if self.batch is not None:
            return self.batch["status"] in ("SUCCEEDED", "FAILED")
        return datetime.now(UTC) - datetime.fromisoformat(self.row.last_seen) > FORGOTTEN_AFTER

    @property
    def takes_work(self) -> bool:
        """Return whether it takes jobs or will: it has not ended and does not drain."""
        return not self.has_ended and not self.row.must_drain and self.row.state != "DRAINING"

    def is_past_its_life(self, hours: float, now: datetime) -> bool:
        """Return whether it is older than `hours`, plus or minus up to a tenth of them.

        The difference is a hash of the worker's id, so that the workers of a fleet do not all end together.
        """
        if self.row.submitted_at is None:
            return False
        share = int(hashlib.sha256(self.row.worker.encode()).hexdigest()[:4], 16) / 0xFFFF / 5 - 0.1
        return now - datetime.fromisoformat(self.row.submitted_at) > timedelta(hours=hours * (1 + share))

    @property
    def job_definition(self) -> str | None:
        """Return the ARN of its job definition: from its row, or from Batch if the worker wrote the row itself."""
        return self.row.job_definition or (self.batch or {}).get("jobDefinition")

    def failure(self) -> WorkerEnd | None:
        """Return why it ended; None if it lives, has completed a job, or left because there was nothing to do."""
        if not self.has_ended or self.row.completed > 0:
            return None
        if self.row.state == "ENDED" or self.row.error is not None:
            return self._failure_in_row()
        if self.batch is not None and self.batch["status"] == "SUCCEEDED":
            return None
        return end_by_batch(self.row.worker, self.batch)

    def _failure_in_row(self) -> WorkerEnd | None:
        """Return the failure that the worker wrote into its row, or that an earlier look wrote there for it."""
        error = self.row.error
        if error is None:
            return None
        if error.retryable or "modelLoaded" in self.row.stages:
            # A worker that has loaded its model could serve, so another one may be able to, whatever this error says.
            return WorkerEnd(self.row.cause or "passing", error.model_copy(update={"retryable": True}))
        return WorkerEnd(self.row.cause or "permanent", error)

    def failed_worker(self) -> FailedWorker | None:
        """Return what the breaker needs to know if the worker ended before it had completed a job."""
        end = self.failure()
        if end is None:
            return None
        return FailedWorker(
            end.cause,
            end.error,
            reported_by_itself=self.row.error is not None and self.row.cause is None,
            submitted_at=self.row.submitted_at,
            alone_with=self.row.alone_with,
            ran_several_jobs=self.row.ran_several_jobs,
        )


class Fleet:
    """All workers of one pipeline, as they were when this object was created."""

    def __init__(self, pipeline: DeployedCompute, workers: Workers) -> None:
        self._pipeline = pipeline
        self._workers = workers
        revisions = workers.revisions.list()
        self._recorded_commits = {(revision.model, revision.revision): revision.commit for revision in revisions}
        rows = workers.list()
        jobs = _describe_jobs([row.worker for row in rows if row.state != "ENDED"])
        self.all = [FleetWorker(row, jobs.get(row.worker)) for row in rows]

    @property
    def live(self) -> list[FleetWorker]:
        """Return the workers that take jobs, or will."""
        return [worker for worker in self.all if worker.takes_work]

    @property
    def running(self) -> int:
        """Return the number of workers that have not ended. One that drains counts: it has its GPU until it ends."""
        return sum(not worker.has_ended for worker in self.all)

    @property
    def uncounted(self) -> list[FleetWorker]:
        """Return the workers that have completed a job or ended since the breaker was last updated."""
        return [
            worker for worker in self.all if not worker.row.counted and (worker.row.completed > 0 or worker.has_ended)
        ]

    @property
    def failed(self) -> list[FailedWorker]:
        """Return the uncounted workers of this deployment that ended before they had completed a job."""
        return [failed for worker in self._uncounted_of_deployment if (failed := worker.failed_worker()) is not None]

    @property
    def has_served(self) -> bool:
        """Return whether one of the uncounted workers of this deployment has completed a job."""
        return any(worker.row.completed > 0 for worker in self._uncounted_of_deployment)

    @property
    def has_started(self) -> bool:
        """Return whether the process of a live worker has started, which shows that Batch found an instance for it.

        A draining worker does not count: its instance, found earlier, says nothing about the present capacity.
        """
        return any(worker.row.state != "SUBMITTED" for worker in self.live)

    @property
    def _uncounted_of_deployment(self) -> list[FleetWorker]:
        """Return the uncounted workers of this deployment. How workers of earlier ones ended says nothing about it."""
        current = (None, self._pipeline.job_definition)
        return [worker for worker in self.uncounted if worker.job_definition in current]

    @property
    def paused_until(self) -> datetime | None:
        """Return when the jobs that wait for a remote server are tried again.

        None unless the worker that left last did so because that server was unavailable.
        """
        current = self._pipeline.job_definition
        waiting = outage_of(worker.row for worker in self.all if worker.job_definition == current)
        return None if waiting is None else datetime.fromisoformat(waiting.until)

    def record_ends(self) -> None:
        """Write the end of each worker that could not write it itself into its row."""
        for worker in self.all:
            if worker.has_ended and worker.row.state != "ENDED":
                failure = worker.failure()
                error, cause = (None, None) if failure is None else (failure.error, failure.cause)
                self._workers.ended(worker.row.worker, error, cause=cause)

    def is_outdated(self, worker: FleetWorker) -> bool:
        """Return whether a worker has another job definition than the deployed one, or has loaded another commit.

        The commits that it has loaded, of its model and of its guardrails' models, are compared with the recorded ones.
        """
        if worker.job_definition not in (None, self._pipeline.job_definition):
            return True
        row = worker.row
        if row.model is None or row.revision is None:
            return False  # it has not loaded its model yet, or is of a version that does not write these fields
        loaded: dict[tuple[str, str], str | None] = {(row.model, row.revision): row.commit}
        loaded |= {(model, MAIN): commit for model, commit in row.guardrails.items()}
        return any(commit != self._recorded_commits.get(model, commit) for model, commit in loaded.items())

    def drain_outdated(self) -> None:
        """Ask outdated workers to leave, and terminate those that still wait for an instance."""
        for worker in self.live:
            if self.is_outdated(worker):
                self._workers.must_drain(worker.row.worker)
                if worker.batch is not None and worker.batch["status"] == "RUNNABLE":
                    client("batch").terminate_job(jobId=worker.row.worker, reason=OUTDATED)

    def drain(self, workers: list[FleetWorker]) -> None:
        """Ask workers to leave."""
        for worker in workers:
            self._workers.must_drain(worker.row.worker)

    def keep_warm(self, live: list[FleetWorker]) -> None:
        """Ask `warmWorkers` workers to stay without work, first those that were asked before, and let others leave."""
        in_order = sorted(live, key=lambda worker: not worker.row.keep)
        for number, worker in enumerate(in_order):
            keep = number < self._pipeline.warm_workers
            if keep != worker.row.keep:
                self._workers.keep(worker.row.worker, keep)

    def start(self, count: int) -> None:
        """Submit `count` workers as Batch jobs, and write a row for each.

        SubmitJob takes no client token, so a crash between the two leaves a worker without a row. Such a worker writes
        its row when it starts; if it never starts, `PipelineScaler` writes the row at the Batch event of its end. Until
        then it is not counted, so one worker too many may be started, which finds no work and leaves.
        """
        batch = client("batch")
        for number in range(count):
            job = batch.submit_job(
                jobName=f"{self._pipeline.id}-{datetime.now(UTC):%Y%m%dT%H%M%S}-{number}",
                jobQueue=self._pipeline.job_queue,
                jobDefinition=self._pipeline.job_definition,
                tags={PIPELINE_TAG: self._pipeline.id},
            )
            self._workers.submitted(job["jobId"], self._pipeline.job_definition)


def _describe_jobs(workers: list[str]) -> dict[str, dict[str, Any]]:
    """Return Batch's descriptions of the workers' jobs, by job id, without those that Batch does not know."""
    batch = client("batch")
    jobs: dict[str, dict[str, Any]] = {}
    for start in range(0, len(workers), DESCRIBED_AT_ONCE):
        answer = batch.describe_jobs(jobs=workers[start : start + DESCRIBED_AT_ONCE])
        jobs |= {job["jobId"]: job for job in answer["jobs"]}
    return jobs
