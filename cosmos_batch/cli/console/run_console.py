"""The console of runs: those of a deployment and those that stopped local clouds have left."""

from pathlib import PurePosixPath

from cosmos_batch.cli.console.deployed_runs import DeployedRuns
from cosmos_batch.cli.console.refusals import refusals
from cosmos_batch.cli.console.run_collection import RunCollection
from cosmos_batch.cli.console.s3_media import MediaFinder, S3MediaFinder
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.runs.stored_run import stored_run
from cosmos_batch.cli.stopped_clouds.lookup import RunDeployments
from cosmos_batch.cli.stopped_clouds.objects import KeptObjects
from cosmos_batch.console.console import Console
from cosmos_batch.console.folder import LocalMedia
from cosmos_batch.contract.s3 import S3Location


def console_of_runs(deployments: RunDeployments, home: str) -> Console:
    """Return the console of runs, which shows the run `home` first, or all runs if it is empty.

    Raises CliError where there is no such run.
    """
    if home:
        stored_run(deployments.having(home), home).request()
    find_media = S3MediaFinder(deployments.cloud.clients("s3")).find if deployments.cloud else None

    @refusals()
    def open_run(name: str) -> RunCollection | None:
        try:
            deployment = deployments.having(name)
            stored_run(deployment, name).request()
        except CliError:
            return None
        if find_media is None or not deployment.is_alive:
            return RunCollection(deployment, name, _finder_of_kept(deployment))
        return RunCollection(deployment, name, find_media)

    return Console(open_run, home, DeployedRuns(deployments))


def _finder_of_kept(deployment: Deployment) -> MediaFinder:
    """Return a function that finds the copies of media files which a stopped local cloud has left."""
    objects: KeptObjects = deployment.clients("s3")

    def find(location: S3Location) -> LocalMedia | None:
        path = objects.file(location)
        return None if path is None else LocalMedia(path, PurePosixPath(location.key).name)

    return find
