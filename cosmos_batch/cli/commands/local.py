"""`cosmos-batch local`: a cloud on this machine that stays until it is stopped."""

import argparse
import shlex

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.cloud import default_home
from cosmos_batch.cli.configuration import CONFIG
from cosmos_batch.cli.local_deployment import clients, deployed_cloud, start_cloud
from cosmos_batch.cli.messages import inform
from cosmos_batch.cli.process_pool import process_pool
from cosmos_batch.local.cloud import LocalCloud
from cosmos_batch.planning.configuration import load_config


def up(arguments: argparse.Namespace) -> int:
    """Start a cloud that outlives this command, and deploy config.json to it."""
    load_config(CONFIG)
    with process_pool() as pool:
        cloud = deployed_cloud(CONFIG, pool, LocalCloud.find(default_home()), start_cloud)
    _point_at(cloud, "up", arguments.export)
    return 0


def start(arguments: argparse.Namespace) -> int:
    """Start a cloud that outlives this command and deploy nothing to it: that is left to the CDK's own command."""
    cloud = LocalCloud.find(default_home()) or start_cloud()
    _point_at(cloud, "start", arguments.export)
    return 0


def _point_at(cloud: LocalCloud, action: str, export: bool) -> None:
    """Print what points a shell at the cloud, or how to have it printed."""
    if export:
        for name, value in cloud.environment.items():
            print(f"export {name}={shlex.quote(value)}")
    else:
        inform(f"The local cloud runs at {cloud.endpoint}; its files lie in {cloud.home}. Point this shell at it:")
        print(f'  eval "$(cosmos-batch local {action} --export)"')


def down(_arguments: argparse.Namespace) -> int:
    """Stop the cloud and everything that it started."""
    cloud = LocalCloud.find(default_home())
    if cloud is None:
        print(f"No local cloud runs in {default_home()}.")
        return 0
    cloud.stop()
    print("Stopped.")
    return 0


def status(_arguments: argparse.Namespace) -> int:
    """Say whether a cloud runs, and what is deployed to it. Exit status 1 where none runs."""
    cloud = LocalCloud.find(default_home())
    if cloud is None:
        print(f"No local cloud runs in {default_home()}. Start one: cosmos-batch local up")
        return 1
    print(f"A local cloud runs at {cloud.endpoint} (process {cloud.process_id}); its files lie in {cloud.home}.")
    print(f"Pipelines: {', '.join(deployments.find(clients(cloud)).pipelines)}")
    return 0
