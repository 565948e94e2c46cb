"""Starting, finding and stopping a local cloud."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from cosmos_batch.local import processes, runtime
from cosmos_batch.local.interrupts import interrupts_held_back

START_SECONDS = 120.0  # a busy machine takes many times the second that a quiet one takes
STOP_SECONDS = 15.0
PATIENCE_SECONDS = 3700


class LocalCloudError(RuntimeError):
    """The local cloud could not be started or stopped; the message says what happened and which log to read."""


class LocalCloud:
    """A local cloud that runs. As a context manager it stops at the end of the block.

    Examples
    --------
    >>> with LocalCloud.start(tmp_path, parent_pid=os.getpid()) as cloud:
    ...     cloud.client("s3").list_buckets()
    """

    def __init__(self, home: Path, cloud_id: str, process_id: int, port: int, standing: bool) -> None:
        self.home = home
        self.cloud_id = cloud_id
        self.process_id = process_id
        self.port = port
        self.standing = standing  # whether it outlives the process that started it

    @classmethod
    def start(
        cls,
        home: Path,
        port: int = 0,
        parent_pid: int | None = None,
        stop_grace: float = 30.0,
        machine_variables: Sequence[str] = (),
        ignored_image_variables: Sequence[str] = (),
        function_modules: Sequence[str] = (),
    ) -> LocalCloud:
        """Start a cloud and wait until it answers.

        Parameters
        ----------
        home
            Directory for its files; those below ``efs`` and ``hosts`` outlive it.
        port
            TCP port; 0 takes a free one.
        parent_pid
            The cloud ends when this process does. Without it, the cloud outlives whoever started it.
        stop_grace
            Seconds that a container has between SIGTERM and SIGKILL.
        machine_variables
            Names of variables of this process's environment that every container gets too, beside those that say how to
            reach the network and the GPUs (``runtime.PASSED_THROUGH``).
        ignored_image_variables
            Names of variables of images that no container gets, beside those that describe an image's file system
            (``batch.jobs.DESCRIBES_THE_IMAGE``).
        function_modules
            Modules that most functions import and that take long: they are imported once, beside boto3, and the
            processes of functions start with them. A function whose code brings such a module imports its own.

        Raises
        ------
        LocalCloudError
            A cloud runs in this home already, or the server ended or did not answer; the message quotes its log.
        """
        home = home.resolve()
        running = cls.find(home)
        if running:
            raise LocalCloudError(
                f"A local cloud runs in {home} already (process {running.process_id}, port {running.port}). "
                "Use it, stop it, or start one in another directory."
            )
        home.mkdir(parents=True, exist_ok=True)
        cloud_id = uuid.uuid4().hex[:12]
        options = ["--home", str(home), "--port", str(port), "--id", cloud_id, "--stop-grace", str(stop_grace)]
        if parent_pid:
            options += ["--parent-pid", str(parent_pid)]
        options += [f"--machine-variable={name}" for name in machine_variables]
        options += [f"--ignored-image-variable={name}" for name in ignored_image_variables]
        options += [f"--function-module={name}" for name in function_modules]
        return cls._start_server(home, cloud_id, options)

    @classmethod
    def _start_server(cls, home: Path, cloud_id: str, options: list[str]) -> LocalCloud:
        process: subprocess.Popen[bytes] | None = None
        try:
            with interrupts_held_back():
                process = _spawn(home, options)
            if cloud := cls._answering(home, cloud_id, process):
                return cloud
        except BaseException:  # an interrupt, too, leaves no server behind, whose session is not the terminal's
            if process is not None:
                _kill(process)
            raise
        exit_code = process.poll()
        _kill(process)
        raise LocalCloudError(
            f"{_how_it_failed(exit_code)} The end of {_log_path(home)}:\n"
            + "\n".join(_log_path(home).read_text(errors="replace").splitlines()[-20:])
        )

    @classmethod
    def _answering(cls, home: Path, cloud_id: str, process: subprocess.Popen[bytes]) -> LocalCloud | None:
        """Return the cloud as soon as it answers; None where its server ends or does not answer in time."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            cloud = cls.find(home)
            if cloud and cloud.cloud_id == cloud_id:
                return cloud
            time.sleep(0.02)
        return None

    @classmethod
    def find(cls, home: Path) -> LocalCloud | None:
        """Return the cloud that runs in ``home`` and answers, or None."""
        home = home.resolve()
        try:
            state = json.loads((home / "cloud.json").read_text())
        except (OSError, ValueError):
            return None
        cloud = cls(home, state["id"], state["pid"], state["port"], state.get("standing", True))
        try:
            return cloud if cloud.status()["cloudId"] == cloud.cloud_id else None
        except LocalCloudError:
            return None

    def stop(self) -> None:
        """Stop the server and every process that it started, also processes that left their process group.

        An interrupt that comes meanwhile takes effect at the end: who presses Ctrl-C twice wants nothing left running.

        Raises
        ------
        LocalCloudError
            Some processes could not be killed.
        """
        with interrupts_held_back():
            _end(self.process_id)
            left = processes.kill_marked(runtime.MARK, f"{self.cloud_id}:")
            (self.home / "cloud.json").unlink(missing_ok=True)
        if left:
            raise LocalCloudError(f"Processes of the local cloud could not be killed: {left}")

    def __enter__(self) -> LocalCloud:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def endpoint(self) -> str:
        """Return the URL of the cloud."""
        return f"http://localhost:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """Return variables that point any AWS SDK or CLI at this cloud as its operator, and CDK at its ``docker``."""
        keys = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local"}
        docker = {"CDK_DOCKER": str(self.home / runtime.PROGRAMS / "docker")}
        return {**runtime.client_environment(self.port), **keys, **docker}

    def client(self, service: str) -> Any:
        """Return a boto3 client of the operator for ``service``; AWS settings of this process have no effect on it."""
        # The call that creates a stack is answered when the stack is complete, custom resources included.
        patient = Config(read_timeout=PATIENCE_SECONDS)
        return boto3.session.Session("local", "local", region_name=runtime.REGION).client(
            service, endpoint_url=self.endpoint, config=patient
        )

    @property
    def log_path(self) -> Path:
        """Return the path of the server's log. Folders beside it hold the output of functions, jobs and builds."""
        return _log_path(self.home)

    def status(self) -> dict[str, Any]:
        """Return names and counts of the functions, images, jobs, executions and messages that the cloud holds.

        Raises
        ------
        LocalCloudError
            The server does not answer.
        """
        return self._request("status")

    def calls(self) -> list[dict[str, Any]]:
        """Return the calls recorded by role: role name, service, operation, resource, count and billed units."""
        return self._request("calls")

    def images(self) -> dict[str, dict[str, Any]]:
        """Return the known images by URI, with ``entrypoint``, ``command``, ``environment`` and ``workdir`` of each."""
        return self._request("images")

    def register_images(self, images: dict[str, dict[str, Any]]) -> None:
        """Make images known by URI, each with ``entrypoint``, ``command``, ``environment`` and ``workdir``."""
        self._request("images", json.dumps(images).encode())

    def _request(self, page: str, body: bytes | None = None) -> Any:
        url = f"{self.endpoint}/local-cloud/{page}"
        request = urllib.request.Request(url, body, method="PUT" if body else "GET")  # noqa: S310 -- always http
        # The machine's HTTP proxy must not be used for a server on the machine.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=10) as response:
                return json.load(response)
        except (OSError, urllib.error.URLError, ValueError) as error:
            raise LocalCloudError(
                f"The local cloud at {self.endpoint} does not answer: {error}. Its log: {self.log_path}"
            ) from error


def _log_path(home: Path) -> Path:
    return home / "logs" / "server.log"


def _how_it_failed(exit_code: int | None) -> str:
    """Return in words why a cloud that was started cannot be used. Without an exit code, its server was still alive."""
    if exit_code is None:
        return f"The local cloud did not answer within {START_SECONDS:.0f} s and was stopped: this machine may be busy."
    return f"The local cloud did not start (exit code {exit_code})."


def _spawn(home: Path, options: list[str]) -> subprocess.Popen[bytes]:
    log_path = _log_path(home)
    log_path.parent.mkdir(parents=True, exist_ok=True)
    with log_path.open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "cosmos_batch.local.server", *options],
            env={name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "MOTO_"))}
            | {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _end(process_id: int) -> None:
    """Send SIGTERM to the server, and SIGKILL if it has not ended in time."""
    for number, patience in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, STOP_SECONDS)):
        try:
            os.kill(process_id, number)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + patience
        while processes.alive(process_id) and time.monotonic() < deadline:
            time.sleep(0.02)
        if not processes.alive(process_id):
            return
