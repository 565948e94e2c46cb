"""Jobs of local clouds that were stopped: their summaries, and copies of their documents and files."""

import json
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import WrongCall
from cosmos_batch.cli.input_checks import is_generator
from cosmos_batch.cli.job_result import JobResult, read_job_result
from cosmos_batch.cli.job_snapshot import find_job
from cosmos_batch.cli.job_summary import ACTIVE, JobFilter, JobSummary, recent_jobs
from cosmos_batch.cli.stopped_clouds.objects import KeptObjects
from cosmos_batch.cli.stopped_clouds.records import record_file, write_record
from cosmos_batch.contract.error import Error
from cosmos_batch.state import FINAL

END_SECONDS = 60.0  # jobs that have not ended by then are kept as cancelled
_POLL_SECONDS = 0.3


@dataclass(frozen=True)
class KeptJobs:
    """The jobs that stopped local clouds have left: a folder with a JSON file for each, and their objects."""

    folder: Path
    objects: KeptObjects

    def keep(self, deployment: Deployment) -> int:
        """Copy every job of a deployment that is to be stopped. Returns their number."""
        count = 0
        for job in recent_jobs(deployment, JobFilter()):
            execution, row = find_job(deployment, job.id)
            uris = [] if job.state not in FINAL else read_job_result(execution, row).file_uris
            self.objects.keep(deployment.clients("s3"), uris, missing_ok=True)
            kept = job.to_json()
            if job.state not in FINAL:
                kept |= {"state": "CANCELLED", "waits_for": "", "error": _unfinished(job).model_dump(by_alias=True)}
            write_record(self.folder, job.id, {"job": kept, "files": uris})
            count += 1
        return count

    def list(self, wanted: JobFilter) -> Iterator[JobSummary]:
        """Yield the jobs that match, newest first."""
        records = [json.loads(path.read_text(encoding="utf-8")) for path in self.folder.glob("*.json")]
        jobs = sorted((JobSummary(**record["job"]) for record in records), key=lambda job: job.submitted_at)
        return (
            job
            for job in reversed(jobs)
            if wanted.matches(job)
            and (wanted.since is None or datetime.fromisoformat(job.submitted_at) >= wanted.since)
        )

    def find(self, job_id: str) -> JobSummary | None:
        """Return the kept job with this id, or None if no job with it was kept."""
        path = record_file(self.folder, job_id)
        if not path.is_file():
            return None
        return JobSummary(**json.loads(path.read_text(encoding="utf-8"))["job"])

    def result(self, job_id: str) -> JobResult:
        """Return what a kept job left; `deployment` reads its documents and files."""
        record = json.loads(record_file(self.folder, job_id).read_text(encoding="utf-8"))
        if record["job"]["error"] is not None:
            return JobResult(error=Error.model_validate(record["job"]["error"]))
        return JobResult(document_uri=record["files"][0], file_uris=record["files"])

    @property
    def deployment(self) -> Deployment:
        """Return a deployment without pipelines, whose S3 has the kept objects."""
        return Deployment(
            lambda _: self.objects, asset_roots=[], state_machine_arn="", state_table="", state_bucket="", pipelines=[]
        )


def end_jobs(deployment: Deployment) -> None:
    """Cancel the jobs of a deployment that have not ended, and wait until their rows say how they have ended.

    The answer of a job that a worker commits at this moment is complete then.
    """
    active = list(recent_jobs(deployment, JobFilter(states=(ACTIVE,))))
    for job in active:
        error = _unfinished(job)
        deployment.clients("stepfunctions").stop_execution(
            executionArn=deployment.execution_arn(job.id), error=error.code, cause=error.cause()
        )
    deadline = time.monotonic() + END_SECONDS
    while any((row := deployment.jobs.get(job.id)) and row.state not in FINAL for job in active):
        if time.monotonic() > deadline:
            return
        time.sleep(_POLL_SECONDS)


def kept_job_ended(job: JobSummary) -> WrongCall:
    """Return the error of asking for more than the result of a job that a stopped local cloud has left."""
    succeeded = job.state == "SUCCEEDED"
    return WrongCall(
        f"{job.id} is a job of a local cloud that was stopped: it can only be read, with status and result.",
        f"Its result: cosmos-batch result {job.id}" if succeeded else _start_again(job),
    )


def _unfinished(job: JobSummary) -> Error:
    return Error(
        code="Cancelled",
        message="The local cloud was stopped before the job had ended.",
        remedy=_start_again(job),
    )


def _start_again(job: JobSummary) -> str:
    """Return how a job is started again. Its input is named as on this machine: the cloud's copy is gone."""
    file = shlex.quote(job.input.rpartition("/")[2])
    if is_generator(job.pipeline):
        command = f"cosmos-batch generate --submit {file if job.input else '--prompt TEXT'}"
    else:
        command = f"cosmos-batch submit {file if job.input else 'FILE'}"
    options = f", with the prompt and options that `cosmos-batch status {job.id}` shows" if job.request else ""
    return f"Start it again{options}: {command}"
