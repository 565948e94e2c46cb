"""The deployment on this machine that `run`, `generate` and the demos work with."""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, partial
from multiprocessing.pool import Pool
from pathlib import Path

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli import synthesis
from cosmos_batch.cli.cloud import default_home, start_local_cloud
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.messages import inform
from cosmos_batch.local.batch.capacity import gpus_here
from cosmos_batch.local.cloud import LocalCloud
from cosmos_batch.local.deploy import deploy


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
    found = LocalCloud.find(default_home())
    if reuse and found and found.standing and (running := _deployment_on(found)):
        inform("Using the local cloud that runs already, as it stands")
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
        cloud = deployed_cloud(config_file, pool, None, partial(start_cloud, os.getpid(), home))
        try:
            yield deployments.find(clients(cloud))
        finally:
            _stop(cloud)


@contextmanager
def _home_beside(home: Path) -> Iterator[Path]:
    """A home for a second cloud, with the models of the first one. Its logs stay where those of the first one are."""
    inform("The local cloud that runs already stays as it is: this command starts one of its own")
    if gpus_here():
        inform("Both have the same GPUs. Where memory is short: cosmos-batch local down")
    (home / "beside").mkdir(parents=True, exist_ok=True)
    # At its end the links are removed, and nothing behind them.
    with tempfile.TemporaryDirectory(dir=home / "beside", ignore_cleanup_errors=True) as scratch:
        beside = Path(scratch)
        shared = {"efs": home / "efs", "hosts": home / "hosts", "logs": home / "logs" / f"beside-{beside.name}"}
        for name, folder in shared.items():
            folder.mkdir(parents=True, exist_ok=True)
            (beside / name).symlink_to(folder)
        yield beside


def deployed_cloud(
    config_file: Path, pool: Pool, found: LocalCloud | None, start: Callable[[], LocalCloud]
) -> LocalCloud:
    """The cloud that was found, else a new one, with the configuration deployed; a new one ends if that fails."""
    assembly = synthesis.assembly(config_file, default_home(), pool)
    cloud = found or start()
    try:
        _deploy(assembly, cloud)
    except BaseException:
        if found is None:
            _stop(cloud)
        raise
    return cloud


def start_cloud(parent_pid: int | None = None, home: Path | None = None) -> LocalCloud:
    began = time.monotonic()
    cloud = start_local_cloud(home or default_home(), parent_pid)
    inform(f"Local cloud started in {time.monotonic() - began:.1f} s")
    return cloud


def _deploy(assembly: synthesis.Assembly, cloud: LocalCloud) -> None:
    began = time.monotonic()
    folder = assembly.wait()
    inform("CDK app: unchanged" if assembly.reused else f"CDK app synthesized in {time.monotonic() - began:.1f} s")
    began = time.monotonic()
    stacks = deploy(folder, cloud, on_stack=lambda _: None)
    inform(f"Deployed {', '.join(stacks)} in {time.monotonic() - began:.1f} s")


def _stop(cloud: LocalCloud) -> None:
    cloud.stop()
    inform("Local cloud stopped")
