"""The console of a deployment: its runs, and what can be done with them."""

from cosmos_batch.cli.console.deployed_runs import DeployedRuns
from cosmos_batch.cli.console.run_collection import RunCollection
from cosmos_batch.cli.console.s3_media import S3MediaFinder
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.runs.stored_run import stored_run
from cosmos_batch.console.console import Console


def console_of_runs(deployment: Deployment, home: str) -> Console:
    """Return the console of a deployment, which shows the run `home` first, or all runs if it is empty.

    Raises CliError where there is no such run.
    """
    if home:
        stored_run(deployment, home).request()
    finder = S3MediaFinder(deployment.clients("s3"))

    def open_run(name: str) -> RunCollection | None:
        try:
            stored_run(deployment, name).request()
        except CliError:
            return None
        return RunCollection(deployment, name, finder.find)

    return Console(open_run, home, DeployedRuns(deployment))
