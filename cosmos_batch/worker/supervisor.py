"""The outer process of a worker: renews leases, passes signals on, and records why the inner process ended.

Decision 004 says why this is a process of its own.
"""

import logging
import os
import signal
import socket
import subprocess
import sys
import time
from types import FrameType
from typing import TYPE_CHECKING

from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.contract.error import Error
from cosmos_batch.worker.instance_metadata import watch_for_spot_notice
from cosmos_batch.worker.logs import start_logging

if TYPE_CHECKING:
    from cosmos_batch.state import Cause

CHANNEL = "COSMOS_BATCH_LEASES"  # the number of the file descriptor of the inner process's end of the socket
BEGAN = "COSMOS_BATCH_BEGAN"  # when the worker started, in seconds since 1970

log = logging.getLogger(__name__)


def main() -> int:
    """Run a worker and return its exit status; 128 + n if signal n ended it."""
    began = time.time()
    start_logging()
    environment = WorkerEnvironment.read()
    supervisor_end, inner_end = socket.socketpair()
    inner = _start(inner_end, began)
    inner_end.close()

    stop_requested = False

    def stop(number: int = signal.SIGTERM) -> None:
        nonlocal stop_requested
        stop_requested = True  # set first: until the inner process handles the signal, it ends with the signal's status
        inner.send_signal(number)

    def pass_on(number: int, _frame: FrameType | None) -> None:
        stop(number)

    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGINT, pass_on)
    watch_for_spot_notice(on_notice=stop)
    _keep_leases(supervisor_end, environment)
    status = inner.wait()
    if status != 0 and stop_requested:
        _record_end(environment, None, None)
    elif status != 0:
        _record_end(environment, _reason(environment, status), "killed" if status == -signal.SIGKILL else "passing")
    return status if status >= 0 else 128 - status


def _start(channel: socket.socket, began: float) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "cosmos_batch.worker.serve"],
        env={**os.environ, CHANNEL: str(channel.fileno()), BEGAN: str(began)},
        pass_fds=[channel.fileno()],
    )


def _keep_leases(channel: socket.socket, environment: WorkerEnvironment) -> None:
    # Imported here, so that the inner process, which has more to import, starts first.
    from cosmos_batch.worker.clients import Clients
    from cosmos_batch.worker.leases import LeaseKeeper, renewal_period

    visibility_timeout = environment.worker.visibility_timeout_seconds
    sqs = Clients().sqs_answering_within(renewal_period(visibility_timeout))
    LeaseKeeper(channel, sqs, environment.queue_url, visibility_timeout).keep()


def _reason(environment: WorkerEnvironment, status: int) -> Error:
    how_ended = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
    log.error("the worker %s", how_ended)
    return Error(
        code="EngineFailed",
        message=f"A worker of {environment.pipeline} {how_ended}.",
        remedy=f"See the log of Batch job {environment.aws_batch_job_id}: an out-of-memory kill is SIGKILL.",
        retryable=True,
    )


def _record_end(environment: WorkerEnvironment, error: Error | None, cause: "Cause | None") -> None:
    """Write the end of the worker, and its reason, to its row for `scale`; unless the inner process has done so."""
    from cosmos_batch.state import Table, Workers
    from cosmos_batch.worker.clients import Clients

    table = Table(Clients().dynamodb, environment.state_table)
    Workers(table, environment.pipeline).ended(environment.aws_batch_job_id, error, cause=cause)
