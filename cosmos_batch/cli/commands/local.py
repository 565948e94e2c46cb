"""`cosmos-batch local`: a cloud on this machine that stands until it is stopped."""

import shlex

import click

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.cloud import default_home
from cosmos_batch.cli.command_line import CosmosCommand, option
from cosmos_batch.cli.configuration import CONFIG
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.json_lines import print_line
from cosmos_batch.cli.kept_jobs import KeptJobs, kept_jobs
from cosmos_batch.cli.local_deployment import clients, deployed_cloud, start_cloud
from cosmos_batch.cli.messages import inform
from cosmos_batch.cli.process_pool import process_pool
from cosmos_batch.local.cloud import LocalCloud
from cosmos_batch.planning.configuration import load_config

EXPORT_HELP = "Print lines that point a shell at the cloud, for eval."


@click.group()
def command() -> None:
    """Run the whole system on this machine, for as long as you like."""


@command.command(
    "up", cls=CosmosCommand, examples=["cosmos-batch local up", 'eval "$(cosmos-batch local up --export)"']
)
@option("--export", is_flag=True, help=EXPORT_HELP)
def up(export: bool) -> int:
    """Start a local cloud and deploy config.json to it. One that runs already is deployed to."""
    load_config(CONFIG)
    with process_pool() as pool:
        cloud = deployed_cloud(CONFIG, pool, LocalCloud.find(default_home()), start_cloud)
    _point_at(cloud, "up", export)
    return 0


@command.command("start", cls=CosmosCommand, examples=['eval "$(cosmos-batch local start --export)"'])
@option("--export", is_flag=True, help=EXPORT_HELP)
def start(export: bool) -> int:
    """Start an empty local cloud, for `npx cdk deploy`."""
    cloud = LocalCloud.find(default_home()) or start_cloud()
    _point_at(cloud, "start", export)
    return 0


@command.command("down", cls=CosmosCommand, examples=["cosmos-batch local down", "cosmos-batch local down --discard"])
@option("--discard", is_flag=True, help="Throw all jobs, documents and files away, also those kept before.")
def down(discard: bool) -> int:
    """Stop the local cloud and every process that it started. Its jobs are kept, for `status` and `result`."""
    cloud, kept = LocalCloud.find(default_home()), kept_jobs()
    if discard:
        kept.discard()
    if cloud is None:
        print(f"No local cloud runs in {default_home()}.")
        return 0
    count = 0 if discard else _keep(cloud, kept)
    cloud.stop()
    print("Stopped." + (f" Its jobs are kept ({count}): cosmos-batch status" if count else ""))
    return 0


def _keep(cloud: LocalCloud, kept: KeptJobs) -> int:
    """Keep the jobs of a cloud that is to be stopped. Returns their number. Raises CliError."""
    try:
        deployment = deployments.find(clients(cloud))
    except CliError:
        return 0  # nothing is deployed to it
    try:
        return kept.keep(deployment)
    except Exception as error:
        raise CliError(
            f"The jobs of the local cloud cannot be kept: {error}. It runs on.",
            "To stop it without them: cosmos-batch local down --discard",
        ) from error


@command.command("status", cls=CosmosCommand, examples=["cosmos-batch local status"])
@option("--json", "as_json", is_flag=True, help="Print it as JSON: running, endpoint, process, home, pipelines.")
def status(as_json: bool) -> int:
    """Print whether a local cloud runs, and what is deployed to it. The exit status is 1 where none runs."""
    cloud = LocalCloud.find(default_home())
    if as_json:
        return _print_json(cloud)
    if cloud is None:
        print(f"No local cloud runs in {default_home()}. Start one: cosmos-batch local up")
        return 1
    print(f"A local cloud runs at {cloud.endpoint} (process {cloud.process_id}); its files lie in {cloud.home}.")
    print(f"Pipelines: {', '.join(deployments.find(clients(cloud)).pipelines)}")
    return 0


def _print_json(cloud: LocalCloud | None) -> int:
    """Print what `status` says as JSON, and return the exit status."""
    if cloud is None:
        print_line(running=False, home=str(default_home()))
        return 1
    try:
        pipelines = deployments.find(clients(cloud)).pipelines
    except CliError:
        pipelines = []  # nothing is deployed to it
    place = {"endpoint": cloud.endpoint, "process": cloud.process_id, "home": str(cloud.home)}
    print_line(running=True, **place, pipelines=pipelines)
    return 0


def _point_at(cloud: LocalCloud, action: str, export: bool) -> None:
    """Print the variables that point a shell at the cloud, or how to have them printed."""
    if export:
        for name, value in cloud.environment.items():
            print(f"export {name}={shlex.quote(value)}")
    else:
        inform(f"The local cloud runs at {cloud.endpoint}; its files lie in {cloud.home}. Point this shell at it:")
        print(f'  eval "$(cosmos-batch local {action} --export)"')
