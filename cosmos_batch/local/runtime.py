"""Settings of the server process: its home, its port, and the environment of the processes that it starts."""

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

# Every process of a cloud has this variable and passes it on to its children. By it all of them are found, also those
# that left the process group of their parent.
MARK = "LOCAL_CLOUD_PROCESS"

# This variable of the server names the folder whose `python` containers run.
CONTAINER_PROGRAMS = "LOCAL_CLOUD_CONTAINER_PROGRAMS"

# The folder below the home with `docker` and `aws`, for the shells of persons.
PROGRAMS = "run/bin"

# A container gets these variables of the machine, and the `machine_variables`. They concern GPUs, the network and the
# number of threads.
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
    """Settings of the cloud whose server this process is.

    Attributes
    ----------
    home
        Directory of file systems, host volumes and logs; it outlives the cloud.
    port
        TCP port of the server.
    cloud_id
        Id of this run of the cloud; part of the mark of every process.
    stop_grace
        Seconds between SIGTERM and SIGKILL when a container is stopped.
    machine_variables
        Names of variables of the server's environment that every container gets, beside ``PASSED_THROUGH``.
    ignored_image_variables
        Names of variables of images that no container gets.
    function_modules
        Modules, beside boto3, that are imported once for the processes of all functions.
    """

    home: Path
    port: int
    cloud_id: str
    stop_grace: float
    machine_variables: tuple[str, ...] = ()
    ignored_image_variables: tuple[str, ...] = ()
    function_modules: tuple[str, ...] = ()

    @property
    def endpoint(self) -> str:
        """Return the URL that clients and containers use."""
        return f"http://localhost:{self.port}"

    @property
    def scratch(self) -> Path:
        """Return the directory that is emptied whenever a cloud starts in this home."""
        return self.home / "run"

    @property
    def logs(self) -> Path:
        """Return the directory of the log files of the server, the functions, the jobs and the builds."""
        return self.home / "logs"


_current: CloudRuntime | None = None


def configure(runtime: CloudRuntime) -> None:
    """Set the runtime of this process and prepare its directories."""
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
        This process is no server of a local cloud.
    """
    if _current is None:
        raise RuntimeError("This process is no server of a local cloud")
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
        # ``python`` in an image is the interpreter with the packages of the image. Here it is the interpreter of the
        # server, or that of another environment whose packages conflict with the server's.
        "PATH": os.pathsep.join(
            [os.environ.get(CONTAINER_PROGRAMS) or str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
        ),
        MARK: f"{runtime.cloud_id}:{container_id}",
        **_endpoint(runtime.port),
    }
