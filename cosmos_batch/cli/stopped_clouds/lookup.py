"""Find jobs and runs in the cloud that the shell points at, and among those that stopped local clouds have left."""

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError, WrongCall
from cosmos_batch.cli.job_snapshot import IsRun, no_such_job
from cosmos_batch.cli.job_summary import JobSummary
from cosmos_batch.cli.local_cloud import default_home
from cosmos_batch.cli.messages import inform
from cosmos_batch.cli.runs.stored_run import no_such_run
from cosmos_batch.cli.stopped_clouds.jobs import KeptJobs, kept_job_ended
from cosmos_batch.cli.stopped_clouds.objects import KeptObjects
from cosmos_batch.cli.stopped_clouds.runs import KeptRuns
from cosmos_batch.state import RunRow


@dataclass(frozen=True)
class Kept:
    """All that local clouds of this machine have left, in one folder."""

    folder: Path

    @property
    def jobs(self) -> KeptJobs:
        """Return the kept jobs."""
        return KeptJobs(self.folder, self._objects)

    @property
    def runs(self) -> KeptRuns:
        """Return the kept runs."""
        return KeptRuns(self.folder / "runs", self._objects)

    def job(self, name: str) -> JobSummary | None:
        """Return a kept job, or None. Raises IsRun for the name of a kept run."""
        if self.runs.has(name):
            raise IsRun(name, others="export or diff; its local cloud was stopped, so it can only be read")
        return self.jobs.find(name)

    @property
    def _objects(self) -> KeptObjects:
        return KeptObjects(self.folder / "objects")

    def discard(self) -> None:
        """Delete all kept jobs and runs, with their files."""
        shutil.rmtree(self.folder, ignore_errors=True)


def kept_here() -> Kept:
    """Return the jobs and runs of stopped local clouds that were kept on this machine."""
    return Kept(default_home() / "kept-jobs")


def find_with_kept() -> tuple[Deployment | None, Kept | None]:
    """Return the deployment that the shell points at, and what stopped local clouds have left on this machine.

    The second is None if the deployment is on AWS. The first is None if no cloud answers but a stopped local cloud has
    left something. If there is neither, this raises what `deployments.find` raises.
    """
    from botocore.exceptions import BotoCoreError

    kept = kept_here()
    try:
        return deployments.find(), kept if _is_local_cloud_named() else None
    except (BotoCoreError, CliError):
        if not kept.folder.is_dir() or not _is_no_cloud_of_aws_named():
            raise
        inform("No cloud answers. This is what local clouds that were stopped have left.")
        return None, kept


def find_with_jobs(ids: Sequence[str]) -> Deployment:
    """Return the deployment for a command that reads more of jobs than was kept, or changes them.

    Raises WrongCall for a kept job, IsRun for a kept run, and CliError where no cloud answers.
    """
    deployment, kept = find_with_kept()
    for job_id in ids:
        if kept and (job := kept.job(job_id)):
            raise kept_job_ended(job)
    if deployment is None:
        raise no_such_job(ids[0])
    return deployment


@dataclass(frozen=True)
class RunDeployments:
    """The deployments that have runs: the cloud at which the shell points, and one for each run that was kept."""

    cloud: Deployment | None
    kept: Kept | None = None

    @property
    def is_local(self) -> bool:
        """Return whether they are local clouds, where nothing costs anything."""
        return self.cloud is None or self.cloud.is_local

    def having(self, run: str) -> Deployment:
        """Return the deployment that has a run: the kept one, or else the cloud, which may not have it either.

        Raises CliError where no cloud answers and the run was not kept.
        """
        if self.kept and self.kept.runs.has(run):
            return self.kept.runs.deployment(run)
        if self.cloud is None:
            raise no_such_run(run)
        return self.cloud

    def list(self) -> Iterator[tuple[Deployment, RunRow]]:
        """Yield the runs of the cloud, and then those that were kept, the latest of each first."""
        if self.cloud:
            yield from ((self.cloud, row) for row in self.cloud.runs.list())
        if self.kept:
            yield from ((self.kept.runs.deployment(row.id), row) for row in self.kept.runs.list())


def find_run_deployments() -> RunDeployments:
    """Return the deployments that have runs. Raises what `deployments.find` raises where there is none."""
    return RunDeployments(*find_with_kept())


def find_with_run(run: str) -> Deployment:
    """Return the deployment that has a run. Raises CliError where no cloud answers and the run was not kept."""
    return find_run_deployments().having(run)


def refuse_kept_run(run: str) -> None:
    """Raise WrongCall where the shell points at a local cloud, and a run of this name is kept from an earlier one."""
    if _is_local_cloud_named() and kept_here().runs.has(run):
        raise kept_run_ended(run)


def kept_run_ended(run: str) -> WrongCall:
    """Return the error of asking a run to go on that a stopped local cloud has left."""
    return WrongCall(
        f"{run} is a run of a local cloud that was stopped. It can be read, and cannot go on.",
        "Start a run under another name: cosmos-batch runs start --name NAME",
    )


def _is_no_cloud_of_aws_named() -> bool:
    """Return whether the shell points at a local cloud or at none: then a stopped local cloud may be meant."""
    names = ("AWS_ENDPOINT_URL", "AWS_PROFILE", "AWS_ACCESS_KEY_ID")
    return _is_local_cloud_named() or not any(os.environ.get(name) for name in names)


def _is_local_cloud_named() -> bool:
    return urlsplit(os.environ.get("AWS_ENDPOINT_URL", "")).hostname in ("localhost", "127.0.0.1")
