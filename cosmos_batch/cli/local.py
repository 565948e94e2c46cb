"""`cosmos-batch local`, and the local deployment that `run` and `demo` work with."""

import argparse
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from multiprocessing.pool import Pool
from pathlib import Path

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli import synthesis
from cosmos_batch.cli.background import background
from cosmos_batch.cli.configuration import CONFIG
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError
from cosmos_batch.contract import Config
from cosmos_batch.local.cloud import LocalCloud, default_home
from cosmos_batch.local.deploy import deploy


def say(text: str) -> None:
    """Tell a person what happens. Not on standard output: that is for results."""
    print(text, file=sys.stderr, flush=True)


def up(arguments: argparse.Namespace) -> int:
    """Start a cloud that outlives this command, and deploy config.json to it."""
    Config.load(CONFIG)
    with background() as pool:
        cloud = _deployed(LocalCloud.find(), CONFIG, pool, parent_pid=None)
    _point_at(cloud, "up", arguments.export)
    return 0


def start(arguments: argparse.Namespace) -> int:
    """Start a cloud that outlives this command and deploy nothing to it: that is left to the CDK's own command."""
    cloud = LocalCloud.find() or _start(parent_pid=None)
    _point_at(cloud, "start", arguments.export)
    return 0


def _point_at(cloud: LocalCloud, action: str, export: bool) -> None:
    """Print what points a shell at the cloud, or how to have it printed."""
    if export:
        for name, value in cloud.environment.items():
            print(f"export {name}={shlex.quote(value)}")
    else:
        say(f"The local cloud runs at {cloud.endpoint}; its files lie in {cloud.home}. Point this shell at it:")
        print(f'  eval "$(cosmos-batch local {action} --export)"')


def down(_arguments: argparse.Namespace) -> int:
    """Stop the cloud and everything that it started."""
    cloud = LocalCloud.find()
    if cloud is None:
        print(f"No local cloud runs in {default_home()}.")
        return 0
    cloud.stop()
    print("Stopped.")
    return 0


def status(_arguments: argparse.Namespace) -> int:
    """Say whether a cloud runs, and what is deployed to it. Exit status 1 where none runs."""
    cloud = LocalCloud.find()
    if cloud is None:
        print(f"No local cloud runs in {default_home()}. Start one: cosmos-batch local up")
        return 1
    print(f"A local cloud runs at {cloud.endpoint} (process {cloud.process_id}); its files lie in {cloud.home}.")
    print(f"Pipelines: {', '.join(deployments.find(clients(cloud)).pipelines)}")
    return 0


def clients(cloud: LocalCloud) -> deployments.Clients:
    """Its clients, each made once."""
    return cache(cloud.client)


def local_deployment(
    pool: Pool, config_file: Callable[[], Path], reuse: bool = True
) -> AbstractContextManager[Deployment]:
    """A deployment on this machine, for the length of a block.

    A local cloud that runs already is used as it stands and left running; unless it is not to be reused, or nothing
    is deployed to it, `config_file` is not even asked.
    """
    running = _running_deployment() if reuse else None
    if running:
        say("Using the local cloud that runs already, as it stands")
        return nullcontext(running)
    return _deployment_of(config_file(), pool)


def _running_deployment() -> Deployment | None:
    cloud = LocalCloud.find()
    if cloud is None:
        return None
    try:
        return deployments.find(clients(cloud))
    except CliError:
        return None


@contextmanager
def _deployment_of(config_file: Path, pool: Pool) -> Iterator[Deployment]:
    found = LocalCloud.find()
    cloud = _deployed(found, config_file, pool, parent_pid=os.getpid())
    try:
        yield deployments.find(clients(cloud))
    finally:
        if found is None:
            _stop(cloud)


def _deployed(found: LocalCloud | None, config_file: Path, pool: Pool, parent_pid: int | None) -> LocalCloud:
    """The cloud with the configuration deployed; one that was started here does not survive a failure."""
    assembly = synthesis.assembly(config_file, default_home(), pool)
    cloud = found or _start(parent_pid)
    try:
        _deploy(assembly, cloud)
    except BaseException:
        if found is None:
            _stop(cloud)
        raise
    return cloud


def _start(parent_pid: int | None) -> LocalCloud:
    began = time.monotonic()
    cloud = LocalCloud.start(parent_pid=parent_pid)
    say(f"Local cloud started in {time.monotonic() - began:.1f} s")
    return cloud


def _deploy(assembly: synthesis.Assembly, cloud: LocalCloud) -> None:
    began = time.monotonic()
    folder = assembly.wait()
    say("CDK app: unchanged" if assembly.reused else f"CDK app synthesized in {time.monotonic() - began:.1f} s")
    began = time.monotonic()
    stacks = deploy(folder, cloud, on_stack=lambda _: None)
    say(f"Deployed {', '.join(stacks)} in {time.monotonic() - began:.1f} s")


def _stop(cloud: LocalCloud) -> None:
    cloud.stop()
    say("Local cloud stopped")
