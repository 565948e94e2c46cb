"""Jobs of local clouds that were stopped: their summaries, and copies of their documents and files."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.cloud import default_home
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.job_result import JobResult, read_job_result
from cosmos_batch.cli.job_snapshot import find_job
from cosmos_batch.cli.job_summary import JobFilter, JobSummary, recent_jobs
from cosmos_batch.cli.messages import inform
from cosmos_batch.contract.error import Error
from cosmos_batch.contract.s3 import parse_uri
from cosmos_batch.state import FINAL

_UNFINISHED = Error(
    code="Cancelled",
    message="The local cloud was stopped before the job had ended.",
    remedy="Start it again: cosmos-batch submit.",
)


@dataclass(frozen=True)
class KeptJobs:
    """A folder in which a JSON file for each job lies, and the objects that jobs have written."""

    folder: Path

    def keep(self, deployment: Deployment) -> int:
        """Copy every job of a deployment that is to be stopped. Returns their number."""
        count = 0
        for job in recent_jobs(deployment, JobFilter()):
            execution, row = find_job(deployment, job.id)
            uris = [] if job.state not in FINAL else read_job_result(execution, row).file_uris
            for uri in uris:
                self._object(uri).parent.mkdir(parents=True, exist_ok=True)
                deployment.clients("s3").download_file(*parse_uri(uri), str(self._object(uri)))
            kept = job.to_json()
            if job.state not in FINAL:
                kept |= {"state": "CANCELLED", "waits_for": "", "error": _UNFINISHED.model_dump(by_alias=True)}
            self.folder.mkdir(parents=True, exist_ok=True)
            written = self._record(job.id).with_suffix(".part")
            written.write_text(json.dumps({"job": kept, "files": uris}), encoding="utf-8")
            written.replace(self._record(job.id))
            count += 1
        return count

    def list(self, wanted: JobFilter) -> Iterator[JobSummary]:
        """Yield the jobs that match, newest first."""
        records = [json.loads(path.read_text(encoding="utf-8")) for path in self.folder.glob("*.json")]
        jobs = sorted((JobSummary(**record["job"]) for record in records), key=lambda job: job.submitted_at)
        since = "" if wanted.since is None else wanted.since.isoformat()
        return (job for job in reversed(jobs) if wanted.matches(job) and job.submitted_at >= since)

    def find(self, job_id: str) -> JobSummary | None:
        """Return a job, or None."""
        path = self._record(job_id)
        if not path.is_file():
            return None
        return JobSummary(**json.loads(path.read_text(encoding="utf-8"))["job"])

    def result(self, job_id: str) -> JobResult:
        """Return what a kept job left; `deployment` reads its documents and files."""
        record = json.loads(self._record(job_id).read_text(encoding="utf-8"))
        if record["job"]["error"] is not None:
            return JobResult(error=Error.model_validate(record["job"]["error"]))
        return JobResult(document_uri=record["files"][0], file_uris=record["files"])

    @property
    def deployment(self) -> Deployment:
        """Return a deployment without pipelines, whose S3 has the kept objects."""
        return Deployment(
            lambda _: self, asset_roots=[], state_machine_arn="", state_table="", state_bucket="", pipelines=[]
        )

    def get_object(self, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: N803 - boto3's names
        """Open a kept object, as an S3 client does."""
        return {"Body": self._object(f"s3://{Bucket}/{Key}").open("rb")}

    def download_file(self, bucket: str, key: str, path: str, **_: object) -> None:
        """Copy a kept object to a path, as an S3 client does. What jobs have written has one version."""
        shutil.copyfile(self._object(f"s3://{bucket}/{key}"), path)

    def discard(self) -> None:
        """Remove all kept jobs."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _record(self, job_id: str) -> Path:
        return self.folder / f"{Path(job_id).name}.json"

    def _object(self, uri: str) -> Path:
        # A key may be longer than the name of a file, and have any character.
        return self.folder / "objects" / hashlib.sha256(uri.encode()).hexdigest()


def kept_jobs() -> KeptJobs:
    """Return the kept jobs of this machine."""
    return KeptJobs(default_home() / "kept-jobs")


def find_with_kept() -> tuple[Deployment | None, KeptJobs | None]:
    """Return the deployment that the shell points at, and the kept jobs where that is a local cloud.

    Where no cloud answers and jobs are kept, there is no deployment. Raises what `deployments.find` raises otherwise.
    """
    from botocore.exceptions import BotoCoreError

    kept, endpoint = kept_jobs(), os.environ.get("AWS_ENDPOINT_URL", "")
    is_local = urlsplit(endpoint).hostname in ("localhost", "127.0.0.1")
    try:
        return deployments.find(), kept if is_local else None
    except (BotoCoreError, CliError):
        names_no_cloud = not endpoint and not any(name in os.environ for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID"))
        if not kept.folder.is_dir() or not (is_local or names_no_cloud):
            raise
        inform("No cloud answers. These are the jobs of local clouds that were stopped.")
        return None, kept
