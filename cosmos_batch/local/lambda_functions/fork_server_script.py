"""Start processes of Lambda functions by forking one process that has imported what most functions import.

An import of boto3 and of its services' models takes longer than the rest of a function's start, and differs for no
function. Each request is one message on a socket: JSON, and the file descriptors of the new process.

    python -P fork_server_script.py SOCKET_FD [MODULE...]
"""

import contextlib
import functools
import gc
import importlib
import json
import os
import runpy
import select
import socket
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

MAX_REQUEST_BYTES = 1 << 20
# The services whose models are read before the first fork; a function may use any other too.
SERVICES = ("dynamodb", "s3", "sqs", "ssm", "stepfunctions")


@dataclass(frozen=True)
class Start:
    """A process to start, with the descriptors that it gets: its log, its two pipes, and where its exit is reported."""

    script: str
    code_dir: str
    handler: str
    environment: dict[str, str]
    requests: int
    responses: int
    log: int
    exit_code: int

    @property
    def arguments(self) -> list[str]:
        """Return the command line of the script."""
        return [self.script, str(self.requests), str(self.responses), self.code_dir, self.handler]

    def close_descriptors(self) -> None:
        """Close what only the new process needs."""
        for descriptor in (self.requests, self.responses, self.log):
            os.close(descriptor)


def preload(modules: Iterable[str]) -> None:
    """Import boto3, the models of some services, and further modules, and exclude them from garbage collection.

    A collection in a forked process would write to the memory that it shares with the others, and so copy it:
    https://docs.python.org/3/library/gc.html#gc.freeze
    """
    gc.set_threshold(50_000)
    import boto3
    import botocore.loaders
    import botocore.session

    # Each session would read its services' models anew.
    botocore.session.create_loader = functools.cache(botocore.loaders.create_loader)
    session = boto3.session.Session("none", "none", region_name="us-east-1")
    for service in SERVICES:
        session.client(service)
    for module in modules:
        importlib.import_module(module)
    gc.freeze()


def serve(connection: socket.socket) -> Start | None:
    """Fork a process for each request; return its `Start` in the new process, and None at the end of the requests."""
    poller = select.poll()
    poller.register(connection, select.POLLIN)
    living: dict[int, tuple[int, int]] = {}  # the id of each process and where its exit is reported, by its descriptor
    while True:
        for descriptor, _ in poller.poll():
            if descriptor in living:
                poller.unregister(descriptor)
                _report_exit(descriptor, *living.pop(descriptor))
                continue
            start = _receive(connection)
            if start is None:
                return None
            process = os.fork()
            if process == 0:
                _close(connection.detach(), start.exit_code, *living, *(ended for _, ended in living.values()))
                return start
            start.close_descriptors()
            handle = os.pidfd_open(process)
            living[handle] = process, start.exit_code
            poller.register(handle, select.POLLIN)
            socket.send_fds(connection, [b"started"], [handle])


def _receive(connection: socket.socket) -> Start | None:
    message, descriptors, _, _ = socket.recv_fds(connection, MAX_REQUEST_BYTES, 4)
    if not message:
        return None
    requests, responses, log, exit_code = descriptors
    return Start(**json.loads(message), requests=requests, responses=responses, log=log, exit_code=exit_code)


def _report_exit(handle: int, process: int, exit_code: int) -> None:
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    with contextlib.suppress(BrokenPipeError):  # The server closed the process and does not ask how it ended.
        os.write(exit_code, str(code).encode())
    _close(handle, exit_code)


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def become(start: Start, own_modules: frozenset[str]) -> None:
    """Run the script in this process, as if it had been started with the environment and the descriptors."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, standard in ((nothing, 0), (start.log, 1), (start.log, 2)):
        os.dup2(descriptor, standard)
    _close(nothing, start.log)
    os.chdir(start.code_dir)
    if any(name.startswith("PYTHON") for name in start.environment):  # an interpreter reads them at its start only
        for descriptor in (start.requests, start.responses):
            os.set_inheritable(descriptor, True)
        os.execve(sys.executable, [sys.executable, "-P", *start.arguments], start.environment)  # noqa: S606
    os.environ.clear()
    os.environ.update(start.environment)
    time.tzset()
    _forget_shadowed(Path(start.code_dir), own_modules)
    sys.argv[:] = start.arguments
    runpy.run_path(start.script, run_name="__main__")


def _forget_shadowed(code_dir: Path, own_modules: frozenset[str]) -> None:
    """Forget the preloaded modules that the code of the function brings itself, so that it imports its own."""
    preloaded = [name for name in sys.modules if name not in own_modules]
    packages = {name.partition(".")[0] for name in preloaded}
    shadowed = {name for name in packages if (code_dir / name).is_dir() or (code_dir / f"{name}.py").exists()}
    for name in preloaded:
        if name.partition(".")[0] in shadowed:
            del sys.modules[name]


def main(connection: int, modules: list[str]) -> None:
    """Fork a process for each request until the socket is closed; the new process runs the script of its request."""
    own_modules = frozenset(sys.modules)
    preload(modules)
    start = serve(socket.socket(fileno=connection))
    if start:
        become(start, own_modules)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
