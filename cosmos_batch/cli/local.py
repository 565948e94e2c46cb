"""`cosmos-batch local`, and the local deployment that `run` and `demo` work with."""

import argparse
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, partial
from multiprocessing.pool import Pool
from pathlib import Path

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli import synthesis
from cosmos_batch.cli.background import background
from cosmos_batch.cli.configuration import CONFIG
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError
from cosmos_batch.contract import Config
from cosmos_batch.local.capacity import gpus_here
from cosmos_batch.local.cloud import LocalCloud, default_home
from cosmos_batch.local.deploy import deploy


def say(text: str) -> None:
    """Tell a person what happens. Not on standard output: that is for results."""
    print(text, file=sys.stderr, flush=True)


def up(arguments: argparse.Namespace) -> int:
    """Start a cloud that outlives this command, and deploy config.json to it."""
    Config.load(CONFIG)
    with background() as pool:
        cloud = _deployed(CONFIG, pool, LocalCloud.find(), _start)
    _point_at(cloud, "up", arguments.export)
    return 0


def start(arguments: argparse.Namespace) -> int:
    """Start a cloud that outlives this command and deploy nothing to it: that is left to the CDK's own command."""
    cloud = LocalCloud.find() or _start()
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

    A standing cloud with a deployment is used as it stands, if `reuse`; `config_file` is not even asked then. Otherwise
    the configuration is deployed to a cloud of this command's own. A cloud that runs already is never deployed to: a
    person has chosen what runs there, or it is another command's own and ends with that.
    """
    found = LocalCloud.find()
    if reuse and found and found.standing and (running := _deployment_on(found)):
        say("Using the local cloud that runs already, as it stands")
        return nullcontext(running)
    return _own_deployment(config_file(), pool, found)


def _deployment_on(cloud: LocalCloud) -> Deployment | None:
    try:
        return deployments.find(clients(cloud))
    except CliError:
        return None


@contextmanager
def _own_deployment(config_file: Path, pool: Pool, found: LocalCloud | None) -> Iterator[Deployment]:
    """On a cloud that ends with the block; beside the one that runs already, if there is one."""
    with nullcontext(default_home()) if found is None else _home_beside(default_home()) as home:
        cloud = _deployed(config_file, pool, None, partial(_start, os.getpid(), home))
        try:
            yield deployments.find(clients(cloud))
        finally:
            _stop(cloud)


@contextmanager
def _home_beside(home: Path) -> Iterator[Path]:
    """A home for a second cloud, with the models of the first one. Its logs stay where those of the first one are."""
    say("The local cloud that runs already stays as it is: this command starts one of its own")
    if gpus_here():
        say("Both have the same GPUs. Where memory is short: cosmos-batch local down")
    (home / "beside").mkdir(parents=True, exist_ok=True)
    # At its end the links are removed, and nothing behind them.
    with tempfile.TemporaryDirectory(dir=home / "beside", ignore_cleanup_errors=True) as scratch:
        beside = Path(scratch)
        shared = {"efs": home / "efs", "hosts": home / "hosts", "logs": home / "logs" / f"beside-{beside.name}"}
        for name, folder in shared.items():
            folder.mkdir(parents=True, exist_ok=True)
            (beside / name).symlink_to(folder)
        yield beside


def _deployed(
    config_file: Path, pool: Pool, found: LocalCloud | None, start_cloud: Callable[[], LocalCloud]
) -> LocalCloud:
    """The cloud that was found, else a new one, with the configuration deployed; a new one ends if that fails."""
    assembly = synthesis.assembly(config_file, default_home(), pool)
    cloud = found or start_cloud()
    try:
        _deploy(assembly, cloud)
    except BaseException:
        if found is None:
            _stop(cloud)
        raise
    return cloud


def _start(parent_pid: int | None = None, home: Path | None = None) -> LocalCloud:
    began = time.monotonic()
    cloud = LocalCloud.start(home, parent_pid=parent_pid)
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
