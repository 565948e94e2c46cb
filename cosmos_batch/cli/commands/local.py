"""`cosmos-batch local`: run a cloud on this machine until it is stopped."""

import shlex

import click

from cosmos_batch.cli.command_line import CosmosCommand, option
from cosmos_batch.cli.configuration import CONFIG
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.json_lines import print_line
from cosmos_batch.cli.local_cloud import default_home
from cosmos_batch.cli.local_deployment import deployed_cloud, deployment_on, start_cloud
from cosmos_batch.cli.messages import inform
from cosmos_batch.cli.model_access import DEMO_MODEL, accessible_config, is_stand_in
from cosmos_batch.cli.process_pool import process_pool
from cosmos_batch.cli.stopped_clouds.jobs import end_jobs
from cosmos_batch.cli.stopped_clouds.lookup import Kept, kept_here
from cosmos_batch.cli.stopped_clouds.runs import end_runs
from cosmos_batch.local.cloud import LocalCloud
from cosmos_batch.planning.configuration import load_config
from cosmos_batch.planning.deployment import enabled_pipelines

EXPORT_HELP = "Print lines that point a shell at the cloud, for eval."


@click.group()
def command() -> None:
    """Run the whole system on this machine, for as long as you like."""


@command.command(
    "up", cls=CosmosCommand, examples=["cosmos-batch local up", 'eval "$(cosmos-batch local up --export)"']
)
@option("--export", is_flag=True, help=EXPORT_HELP)
def up(export: bool) -> int:
    """Start a local cloud and deploy config.json to it. One that runs already is deployed to.

    Where the model of a reasoner is neither on this machine nor downloadable, the demo's small model answers in its
    place, and the command says so.
    """
    config_file = accessible_config(enabled_pipelines(load_config(CONFIG)))
    with process_pool() as pool:
        cloud = deployed_cloud(config_file, pool, LocalCloud.find(default_home()), start_cloud)
    _point_at(cloud, "up", export)
    return 0


@command.command("start", cls=CosmosCommand, examples=['eval "$(cosmos-batch local start --export)"'])
@option("--export", is_flag=True, help=EXPORT_HELP)
def start(export: bool) -> int:
    """Start an empty simulated AWS, for `npx cdk deploy`."""
    cloud = LocalCloud.find(default_home()) or start_cloud()
    _point_at(cloud, "start", export)
    return 0


@command.command("down", cls=CosmosCommand, examples=["cosmos-batch local down", "cosmos-batch local down --discard"])
@option("--discard", is_flag=True, help="Throw all jobs, runs, documents and files away, also those kept before.")
def down(discard: bool) -> int:
    """Stop the local cloud and every process that it started. Its jobs and runs are kept.

    `status`, `wait` and `result` find the jobs afterwards, and `runs list`, `show`, `watch`, `export` and `diff` find
    the runs.
    """
    cloud, kept = LocalCloud.find(default_home()), kept_here()
    is_kept = kept.folder.is_dir()
    if discard:
        kept.discard()
    if cloud is None:
        discarded = " What earlier ones had left was thrown away." if discard and is_kept else ""
        print(f"No local cloud runs in {default_home()}.{discarded}")
        return 0
    note = "" if discard else _keep(cloud, kept)
    cloud.stop()
    print(f"Stopped.{note}")
    return 0


def _keep(cloud: LocalCloud, kept: Kept) -> str:
    """Keep the jobs and runs of a cloud that is to be stopped. Returns a sentence about them. Raises CliError."""
    deployment = deployment_on(cloud)
    if deployment is None:
        _refuse_unreadable(cloud)
        return ""
    try:
        end_jobs(deployment)
        end_runs(deployment)
        jobs, runs = kept.jobs.keep(deployment), kept.runs.keep(deployment)
    except Exception as error:
        raise CliError(
            f"The jobs and runs of the local cloud cannot be kept: {error}. It goes on running.",
            "Correct that, and try again. To stop it and throw them away, with all that earlier clouds have left: "
            "cosmos-batch local down --discard",
        ) from error
    note = f"\nIts jobs are kept ({jobs}): cosmos-batch status" if jobs else ""
    return note + (f"\nIts runs are kept ({runs}): cosmos-batch runs list" if runs else "")


def _refuse_unreadable(cloud: LocalCloud) -> None:
    """Raise CliError where a cloud has rows of jobs or runs of a deployment whose stacks were removed."""
    dynamodb = cloud.client("dynamodb")
    kinds = {":job": {"S": "job"}, ":run": {"S": "run"}}
    wanted = {"FilterExpression": "sk IN (:job, :run)", "ExpressionAttributeValues": kinds}
    tables = dynamodb.list_tables()["TableNames"]
    pages = (page for table in tables for page in dynamodb.get_paginator("scan").paginate(TableName=table, **wanted))
    if any(page["Items"] for page in pages):
        raise CliError(
            "The stacks of the local cloud were removed, and its jobs and runs cannot be kept without them. It goes on "
            "running.",
            "Copy what you need from its buckets. Then stop it, and throw all else away, with all that earlier clouds "
            "have left: cosmos-batch local down --discard",
        )


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
    deployment = deployment_on(cloud)
    if deployment is None:
        print("Nothing is deployed to it: cosmos-batch local up, or npx cdk deploy --all")
        return 0
    print(f"Pipelines: {', '.join(_answering(deployment, pipeline) for pipeline in deployment.pipelines)}")
    return 0


def _answering(deployment: Deployment, pipeline: str) -> str:
    """Return the id of a pipeline, with the model that answers where that is not NVIDIA's."""
    return f"{pipeline} (answered by {DEMO_MODEL})" if is_stand_in(deployment, pipeline) else pipeline


def _print_json(cloud: LocalCloud | None) -> int:
    """Print what `status` says as JSON, and return the exit status."""
    if cloud is None:
        print_line(running=False, home=str(default_home()))
        return 1
    deployment = deployment_on(cloud)
    pipelines = [] if deployment is None else deployment.pipelines
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
