"""What the server process knows about itself: its home, its port, and the processes that are its own."""

from __future__ import annotations

import functools
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3

ACCOUNT = "123456789012"
REGION = "us-east-1"
IN_REGION = {"AWS_DEFAULT_REGION": REGION, "AWS_REGION": REGION}

# Every process of a cloud carries this variable, and hands it to its children. It is how all of them are found again,
# also those that left their parent's process group.
MARK = "LOCAL_CLOUD_PROCESS"

# Of the environment: the folder of `python` for containers.
CONTAINER_PROGRAMS = "LOCAL_CLOUD_CONTAINER_PROGRAMS"

# Below the home: the programs that a person's shell may use, as builds do.
PROGRAMS = "run/bin"

# A container starts from these variables of the machine and no others. They say how to reach the GPU and the network,
# and how many threads it may have, never what to do.
PASSED_THROUGH = (
    "LD_LIBRARY_PATH",
    "OMP_NUM_THREADS",
    "CUDA_HOME",
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "LANG",
    "TMPDIR",
)


@dataclass(frozen=True)
class CloudRuntime:
    """One running cloud, seen from inside its server process.

    Attributes
    ----------
    home
        Directory that outlives the cloud: file systems, host volumes, logs.
    port
        TCP port of the server.
    cloud_id
        Identifies this run of the cloud; part of every process's mark.
    stop_grace
        Seconds between SIGTERM and SIGKILL when a container is stopped.
    machine_variables
        Names of variables of the server's environment that every container gets, beside ``PASSED_THROUGH``.
    ignored_image_variables
        Names of variables of images that no container gets.
    """

    home: Path
    port: int
    cloud_id: str
    stop_grace: float
    machine_variables: tuple[str, ...] = ()
    ignored_image_variables: tuple[str, ...] = ()

    @property
    def endpoint(self) -> str:
        """URL that clients and containers use."""
        return f"http://localhost:{self.port}"

    @property
    def scratch(self) -> Path:
        """Directory that is emptied whenever a cloud starts in this home."""
        return self.home / "run"

    @property
    def logs(self) -> Path:
        """Directory of the log files of the server, its Lambdas and its containers."""
        return self.home / "logs"


_current: CloudRuntime | None = None


def configure(runtime: CloudRuntime) -> None:
    """Make ``runtime`` the one of this process and prepare its directories."""
    global _current
    _current = runtime
    shutil.rmtree(runtime.scratch, ignore_errors=True)
    for directory in (runtime.scratch, runtime.logs):
        directory.mkdir(parents=True, exist_ok=True)


def current() -> CloudRuntime:
    """Return the runtime of this process.

    Raises
    ------
    RuntimeError
        Outside a server process.
    """
    if _current is None:
        raise RuntimeError("no local cloud runs in this process")
    return _current


def client_environment(port: int) -> dict[str, str]:
    """Return the variables that point any AWS SDK at the cloud on ``port``, without the credentials."""
    return {**_endpoint(port), **IN_REGION}


def _endpoint(port: int) -> dict[str, str]:
    return {"AWS_ENDPOINT_URL": f"http://localhost:{port}", "AWS_EC2_METADATA_DISABLED": "true"}


@functools.cache
def operator_client(service: str) -> Any:
    """Return the server's own boto3 client, with which it acts on behalf of the operator."""
    return boto3.session.Session("local", "local", region_name=REGION).client(service, endpoint_url=current().endpoint)


def container_environment(container_id: str) -> dict[str, str]:
    """Return the variables with which every container starts. A region is not among them: ECS gives none."""
    runtime = current()
    passed = {name: os.environ[name] for name in (*PASSED_THROUGH, *runtime.machine_variables) if name in os.environ}
    return {
        **passed,
        # ``python`` in an image is the interpreter that has the image's packages: here, the one that runs the server,
        # or that of an environment for engines whose packages conflict with ours.
        "PATH": os.pathsep.join(
            [os.environ.get(CONTAINER_PROGRAMS) or str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
        ),
        MARK: f"{runtime.cloud_id}:{container_id}",
        **_endpoint(runtime.port),
    }
