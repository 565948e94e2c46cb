"""The server process of a local cloud. ``cloud.LocalCloud.start`` runs it; it is not meant to be run by hand.

python -m cosmos_batch.local.server --home DIR --port PORT --id ID [--parent-pid PID] [--stop-grace SECONDS]
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from werkzeug.serving import BaseWSGIServer, make_server

from cosmos_batch.local import processes, runtime
from cosmos_batch.local.eventbridge import schedule
from cosmos_batch.local.lambda_functions import invocations
from cosmos_batch.local.programs import install

_LOG = logging.getLogger(__name__)


def main() -> None:
    """Serve until SIGTERM, SIGINT, or the end of the parent process."""
    arguments = _arguments()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # By default a thread that computes keeps the interpreter for 5 ms, and requests are answered in 1 ms.
    sys.setswitchinterval(0.0005)
    # The modules of moto and boto3 stay. To traverse them for garbage took a third of the CPU time of a start, and a
    # sixth of that of a deployment.
    gc.set_threshold(50_000)
    server = listen(arguments)
    gc.freeze()
    schedule.start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
    if arguments.parent_pid:
        _end_with(arguments.parent_pid, server)
    guardian = _Guardian()
    _publish_state(standing=arguments.parent_pid is None)
    server.serve_forever()
    _stop_containers()
    guardian.close()
    # A return would make the interpreter wait for every delivery and invocation that still retries.
    os._exit(0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--id", required=True)
    parser.add_argument("--parent-pid", type=int)
    parser.add_argument("--stop-grace", type=float, default=30.0)
    parser.add_argument("--machine-variable", action="append", default=[])
    parser.add_argument("--ignored-image-variable", action="append", default=[])
    parser.add_argument("--function-module", action="append", default=[])
    return parser.parse_args()


def listen(arguments: argparse.Namespace) -> BaseWSGIServer:
    """Bind the port, then load moto, which must know the port, and install the patches."""
    application: list[Any] = []

    def serve(environ: dict[str, Any], start_response: Any) -> Any:
        return application[0](environ, start_response)

    from cosmos_batch.local.http_server import Application, RequestHandler
    from cosmos_batch.local.moto_patches import registry

    server = make_server("127.0.0.1", arguments.port, serve, threaded=True, request_handler=RequestHandler)
    runtime.configure(
        runtime.CloudRuntime(
            arguments.home,
            server.server_port,
            arguments.id,
            arguments.stop_grace,
            tuple(arguments.machine_variable),
            tuple(arguments.ignored_image_variable),
            tuple(arguments.function_module),
        )
    )
    install(arguments.home / runtime.PROGRAMS, privileged=True)
    os.environ.update(runtime.client_environment(server.server_port), MOTO_PORT=str(server.server_port))
    registry.install_all()
    application.append(Application())
    return server


def _end_with(parent: int, server: BaseWSGIServer) -> None:
    """Shut down when the parent process ends, however it ends."""

    def wait() -> None:
        try:
            descriptor = os.pidfd_open(parent)
        except ProcessLookupError:
            pass
        else:
            select.select([descriptor], [], [])
        server.shutdown()

    threading.Thread(target=wait, daemon=True, name="parent").start()


class _Guardian:
    """The guardian is a process that kills what the server started as soon as the server ends, however it ends."""

    def __init__(self) -> None:
        child_end, self._our_end = os.pipe()
        mark = f"{runtime.current().cloud_id}:"
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-S", processes.__file__, str(child_end), runtime.MARK, mark], pass_fds=(child_end,)
        )
        os.close(child_end)

    def close(self) -> None:
        """Let the guardian kill the remaining processes, and wait for it."""
        os.close(self._our_end)
        self._process.wait()


def _publish_state(standing: bool) -> None:
    """Write the state file by which ``LocalCloud.find`` finds this server. It exists only while the server answers."""
    current = runtime.current()
    state = {"id": current.cloud_id, "pid": os.getpid(), "port": current.port, "standing": standing}
    partial = current.home / f"cloud.{current.cloud_id}.json"
    partial.write_text(json.dumps(state))
    partial.replace(current.home / "cloud.json")


def _stop_containers() -> None:
    from cosmos_batch.local.batch import jobs

    invocations.close_all()
    jobs.kill_all()


if __name__ == "__main__":
    main()
