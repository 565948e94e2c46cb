"""The workers of a pipeline: what their rows say together with what Batch says."""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from cosmos_batch.catalogue.pipelines import PIPELINE_TAG
from cosmos_batch.contract.environment import PipelineCompute
from cosmos_batch.state import WorkerRow, Workers
from lambdas.clients import client
from lambdas.scaling.batch_reason import Ending, ending_by_batch
from lambdas.scaling.breaker import Death

DESCRIBED_AT_ONCE = 100  # of DescribeJobs
OUTDATED = "Another deployment has taken its place."  # for people: TerminateJob's reason
# Batch forgets ended jobs after a week or more. A row is younger than its job is known, or nobody ended it.
FORGOTTEN_AFTER = timedelta(minutes=15)


@dataclass(frozen=True)
class Worker:
    """One worker. `batch` is None where Batch knows no such job."""

    row: WorkerRow
    batch: dict[str, Any] | None

    @property
    def has_ended(self) -> bool:
        """By its own word, by Batch's, or because nothing has been heard of it for long."""
        if self.row.state == "ENDED":
            return True
        if self.batch is not None:
            return self.batch["status"] in ("SUCCEEDED", "FAILED")
        return datetime.now(UTC) - datetime.fromisoformat(self.row.last_seen) > FORGOTTEN_AFTER

    @property
    def counts(self) -> bool:
        """Whether work may be left to it: one that drains takes no more."""
        return not self.has_ended and not self.row.must_drain and self.row.state != "DRAINING"

    def is_past_its_life(self, hours: float, now: datetime) -> bool:
        """Whether it has lived its hours, give or take a tenth that is its own: not all of a fleet end at once."""
        if self.row.submitted_at is None:
            return False
        tenth = int(hashlib.sha256(self.row.worker.encode()).hexdigest()[:4], 16) / 0xFFFF / 5 - 0.1
        return now - datetime.fromisoformat(self.row.submitted_at) > timedelta(hours=hours * (1 + tenth))

    @property
    def job_definition(self) -> str | None:
        """What it was started from; one that registered itself leaves that to Batch to say."""
        return self.row.job_definition or (self.batch or {}).get("jobDefinition")

    def failure(self) -> Ending | None:
        """Why it ended without having served; None where it served, or left because there was nothing to do."""
        if not self.has_ended or self.row.completed > 0:
            return None
        if self.row.state == "ENDED" or self.row.error is not None:
            return self._by_its_row()
        if self.batch is not None and self.batch["status"] == "SUCCEEDED":
            return None
        return ending_by_batch(self.row.worker, self.batch)

    def _by_its_row(self) -> Ending | None:
        """As it said itself, or as an earlier look wrote for it."""
        error = self.row.error
        if error is None:
            return None
        if error.retryable or "modelLoaded" in self.row.stages:
            # Who had loaded its model was able to serve: another worker may be too, whatever this one says.
            return Ending(self.row.cause or "passing", error.model_copy(update={"retryable": True}))
        return Ending(self.row.cause or "permanent", error)

    def death(self) -> Death | None:
        """What the breaker must know of its end, if it ended without having served."""
        ending = self.failure()
        if ending is None:
            return None
        return Death(
            ending.cause,
            ending.error,
            by_own_word=self.row.error is not None and self.row.cause is None,
            submitted_at=self.row.submitted_at,
            alone_with=self.row.alone_with,
            in_company=self.row.in_company,
        )


class Fleet:
    """All workers of one pipeline."""

    def __init__(self, pipeline: PipelineCompute, workers: Workers) -> None:
        self._pipeline = pipeline
        self._workers = workers
        self._recorded = {(one.model, one.revision): one.commit for one in workers.revisions.list()}
        rows = workers.list()
        described = _describe([row.worker for row in rows if row.state != "ENDED"])
        self._fleet = [Worker(row, described.get(row.worker)) for row in rows]

    @property
    def live(self) -> list[Worker]:
        """Those that work may be left to."""
        return [worker for worker in self._fleet if worker.counts]

    @property
    def running(self) -> int:
        """How many take up room, those that leave included: each has its GPU until it ends."""
        return sum(not worker.has_ended for worker in self._fleet)

    @property
    def unjudged(self) -> list[Worker]:
        """Those that have served or ended since the breaker last looked."""
        return [
            worker for worker in self._fleet if not worker.row.judged and (worker.row.completed > 0 or worker.has_ended)
        ]

    @property
    def deaths(self) -> list[Death]:
        """Of those, the ends that the breaker must know of."""
        return [death for worker in self._unjudged_of_today if (death := worker.death()) is not None]

    @property
    def has_served(self) -> bool:
        """Whether one of those has brought a job to its end."""
        return any(worker.row.completed > 0 for worker in self._unjudged_of_today)

    @property
    def _unjudged_of_today(self) -> list[Worker]:
        """Without workers of an earlier deployment, which say nothing of what is deployed now."""
        current = (None, self._pipeline.job_definition)
        return [worker for worker in self.unjudged if worker.job_definition in current]

    def settle(self) -> None:
        """Write the end of those that could not do so themselves."""
        for worker in self._fleet:
            if worker.has_ended and worker.row.state != "ENDED":
                failure = worker.failure()
                error, cause = (None, None) if failure is None else (failure.error, failure.cause)
                self._workers.ended(worker.row.worker, error, cause=cause)

    def is_outdated(self, worker: Worker) -> bool:
        """Whether its image or settings are old, or the commit of its model is not the recorded one any more."""
        if worker.job_definition not in (None, self._pipeline.job_definition):
            return True
        row = worker.row
        if row.model is None or row.revision is None:
            return False  # it has not loaded its model yet, or is of a version that does not tell
        return row.commit != self._recorded.get((row.model, row.revision), row.commit)

    def drain_outdated(self) -> None:
        """Ask outdated workers to leave, and give up those that still wait for an instance: it would be for nothing."""
        for worker in self.live:
            if self.is_outdated(worker):
                self._workers.must_drain(worker.row.worker)
                if worker.batch is not None and worker.batch["status"] == "RUNNABLE":
                    client("batch").terminate_job(jobId=worker.row.worker, reason=OUTDATED)

    def retire(self, workers: list[Worker]) -> None:
        """Ask workers at the end of their life to leave."""
        for worker in workers:
            self._workers.must_drain(worker.row.worker)

    def keep_warm(self, live: list[Worker]) -> None:
        """Ask as many as are wanted warm to stay, those first that were asked before; the others may leave."""
        in_order = sorted(live, key=lambda worker: not worker.row.keep)
        for number, worker in enumerate(in_order):
            keep = number < self._pipeline.warm_workers
            if keep != worker.row.keep:
                self._workers.keep(worker.row.worker, keep)

    @property
    def all(self) -> list[Worker]:
        """Every worker that is known, ended ones included."""
        return self._fleet

    def start(self, count: int) -> None:
        """Submit workers.

        SubmitJob takes no client token. If we die before the row is written, the worker registers itself when it
        starts; if it never starts, the event of its end brings it here (`scale.known`). Until then it is not counted,
        and one worker too many may be started: it finds no work and leaves.
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


def _describe(workers: list[str]) -> dict[str, dict[str, Any]]:
    batch = client("batch")
    jobs: dict[str, dict[str, Any]] = {}
    for start in range(0, len(workers), DESCRIBED_AT_ONCE):
        answer = batch.describe_jobs(jobs=workers[start : start + DESCRIBED_AT_ONCE])
        jobs |= {job["jobId"]: job for job in answer["jobs"]}
    return jobs
