"""Find jobs and runs in the cloud that the shell points at, and among those that stopped local clouds have left."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError, WrongCall
from cosmos_batch.cli.local_cloud import default_home
from cosmos_batch.cli.messages import inform
from cosmos_batch.cli.runs.stored_run import no_such_run
from cosmos_batch.cli.stopped_clouds.jobs import KeptJobs
from cosmos_batch.cli.stopped_clouds.objects import KeptObjects
from cosmos_batch.cli.stopped_clouds.runs import KeptRuns


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

    @property
    def _objects(self) -> KeptObjects:
        return KeptObjects(self.folder / "objects")

    def discard(self) -> None:
        """Remove all that was kept."""
        shutil.rmtree(self.folder, ignore_errors=True)


def kept_here() -> Kept:
    """Return what was kept on this machine."""
    return Kept(default_home() / "kept-jobs")


def find_with_kept() -> tuple[Deployment | None, Kept | None]:
    """Return the deployment that the shell points at, and what was kept where that is a local cloud.

    Where no cloud answers and something is kept, there is no deployment. Raises what `deployments.find` raises
    otherwise.
    """
    from botocore.exceptions import BotoCoreError

    kept = kept_here()
    try:
        return deployments.find(), kept if _is_local_cloud_named() else None
    except (BotoCoreError, CliError):
        if not kept.folder.is_dir() or not is_no_cloud_of_aws_named():
            raise
        inform("No cloud answers. This is what local clouds that were stopped have left.")
        return None, kept


def find_with_run(run: str) -> Deployment:
    """Return the deployment that has a run: the kept one, or else that at which the shell points.

    Raises CliError where no cloud answers and the run was not kept.
    """
    [deployment] = find_with_runs(run)
    return deployment


def find_with_runs(*runs: str) -> list[Deployment]:
    """Return for each run the deployment that has it, as `find_with_run` does, and look for a cloud once."""
    deployment, kept = find_with_kept()
    return [_deployment_with(run, deployment, kept) for run in runs]


def _deployment_with(run: str, deployment: Deployment | None, kept: Kept | None) -> Deployment:
    if kept and kept.runs.has(run):
        return kept.runs.deployment(run)
    if deployment is None:
        raise no_such_run(run)
    return deployment


def refuse_kept_run(run: str) -> None:
    """Raise WrongCall where the shell points at a local cloud, and a run of this name is kept from an earlier one."""
    if _is_local_cloud_named() and kept_here().runs.has(run):
        raise WrongCall(
            f"{run} is a run of a local cloud that was stopped. It can be read, and cannot go on.",
            "Start a run under another name: cosmos-batch runs start --name NAME",
        )


def is_no_cloud_of_aws_named() -> bool:
    """Return whether the shell points at a local cloud or at none, so that what was kept may be meant."""
    names = ("AWS_ENDPOINT_URL", "AWS_PROFILE", "AWS_ACCESS_KEY_ID")
    return _is_local_cloud_named() or not any(os.environ.get(name) for name in names)


def _is_local_cloud_named() -> bool:
    return urlsplit(os.environ.get("AWS_ENDPOINT_URL", "")).hostname in ("localhost", "127.0.0.1")
