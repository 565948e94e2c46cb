"""The deployment on this machine that `run`, `generate` and the demos work with."""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import cache, partial
from multiprocessing.pool import Pool
from pathlib import Path

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli import synthesis
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.input_checks import chosen_reasoner, is_generator, is_reasoner
from cosmos_batch.cli.local_cloud import default_home, start_local_cloud
from cosmos_batch.cli.messages import detail, inform
from cosmos_batch.cli.model_access import inform_of_stand_ins
from cosmos_batch.local.cloud import LocalCloud


def clients(cloud: LocalCloud) -> deployments.ClientFactory:
    """Return a function that returns the cloud's client of a service, and makes each once."""
    return cache(cloud.client)


def local_deployment(
    pool: Pool,
    config_file: Callable[[], Path],
    reuse: bool = True,
    generates: bool = False,
    pipeline: str | None = None,
) -> AbstractContextManager[Deployment]:
    """Return a deployment on this machine for the length of a block.

    With `reuse`, a cloud that stands and has a deployment is used as it stands, and `config_file` is not called. It
    must have a generator for a command that `generates`, and a reasoner for any other. If the demo's model answers
    there for that reasoner (`pipeline`, or the smallest one), the command says so.
    Otherwise that configuration is deployed to a cloud of this command's own, which ends with the block. Nothing is
    ever deployed to a cloud that runs already: a person has chosen what runs there, or it belongs to another command.
    """
    running = LocalCloud.find(default_home())
    deployment = deployment_on(running) if reuse and running and running.standing else None
    if deployment and any(map(is_generator if generates else is_reasoner, deployment.pipelines)):
        inform("Using the local cloud that runs already, as it stands")
        if not generates:
            inform_of_stand_ins(deployment, [chosen_reasoner(pipeline, deployment.pipelines)])
        return nullcontext(deployment)
    return _own_deployment(config_file(), pool, running)


def deployed_cloud(
    config_file: Path, pool: Pool, running: LocalCloud | None, start: Callable[[], LocalCloud]
) -> LocalCloud:
    """Deploy a configuration to the running cloud, or to a new one, which is stopped where that fails."""
    assembly = synthesis.assembly(config_file, default_home(), pool)
    cloud = running or start()
    try:
        _deploy(assembly, cloud)
    except BaseException:
        if running is None:
            _stop(cloud)
        raise
    return cloud


def start_cloud(parent_pid: int | None = None, home: Path | None = None) -> LocalCloud:
    """Start a cloud, which ends with the process `parent_pid`, or stays until it is stopped."""
    began = time.monotonic()
    cloud = start_local_cloud(home or default_home(), parent_pid)
    try:
        inform(f"Local cloud started in {time.monotonic() - began:.1f} s")
        detail(f"Its logs: {cloud.log_path} and beside it")
    except BaseException:  # an interrupt, too: nobody else knows the cloud yet
        cloud.stop()
        raise
    return cloud


def deployment_on(cloud: LocalCloud) -> Deployment | None:
    """Return the deployment in a local cloud, or None where nothing is deployed to it."""
    try:
        return deployments.find(clients(cloud))
    except CliError:
        return None


@contextmanager
def _own_deployment(config_file: Path, pool: Pool, running: LocalCloud | None) -> Iterator[Deployment]:
    """Deploy to a cloud that ends with the block. It stands beside the one that runs already, if there is one."""
    with nullcontext(default_home()) if running is None else _home_beside(default_home()) as home:
        cloud = deployed_cloud(config_file, pool, None, partial(start_cloud, os.getpid(), home))
        try:
            yield replace(deployments.find(clients(cloud)), ends_with_command=True)
        finally:
            _stop(cloud)


@contextmanager
def _home_beside(home: Path) -> Iterator[Path]:
    """Create a folder for the files of a second local cloud, and delete it at the end of the block.

    By links, the second cloud shares the models of the first, and writes its logs into the folder of the first.
    """
    from cosmos_batch.local.batch.capacity import gpus_here

    inform("The local cloud that runs already stays as it is: this command starts one of its own")
    if gpus_here():
        inform("Both have the same GPUs. Where memory is short: cosmos-batch local down")
    (home / "beside").mkdir(parents=True, exist_ok=True)
    # Removing a temporary directory removes the links in it, and nothing that they point at.
    with tempfile.TemporaryDirectory(dir=home / "beside", ignore_cleanup_errors=True) as scratch:
        beside = Path(scratch)
        shared = {"efs": home / "efs", "hosts": home / "hosts", "logs": home / "logs" / f"beside-{beside.name}"}
        for name, folder in shared.items():
            folder.mkdir(parents=True, exist_ok=True)
            (beside / name).symlink_to(folder)
        yield beside


def _deploy(assembly: synthesis.Assembly, cloud: LocalCloud) -> None:
    from cosmos_batch.local.deploy import deploy

    began = time.monotonic()
    folder = assembly.wait()
    inform("CDK app: unchanged" if assembly.reused else f"CDK app synthesized in {time.monotonic() - began:.1f} s")
    began = time.monotonic()
    stacks = deploy(folder, cloud, on_stack=lambda _: None)
    inform(f"Deployed {', '.join(stacks)} in {time.monotonic() - began:.1f} s")


def _stop(cloud: LocalCloud) -> None:
    cloud.stop()
    inform("Local cloud stopped")
