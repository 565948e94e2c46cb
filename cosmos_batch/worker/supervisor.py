"""The outer process of a worker: keeps leases, passes signals on, and says what the inner one died of."""

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
from cosmos_batch.worker.logs import start_logging
from cosmos_batch.worker.spot import watch

if TYPE_CHECKING:
    from cosmos_batch.state import Cause

CHANNEL = "COSMOS_BATCH_LEASES"  # the inner process finds its end of the socket by this file descriptor's number
BEGAN = "COSMOS_BATCH_BEGAN"  # when the worker began, in seconds since 1970

log = logging.getLogger(__name__)


def main() -> int:
    """Run a worker. Returns its exit status, 128 + n where signal n ended it."""
    began = time.time()
    start_logging()
    environment = WorkerEnvironment.read()
    ours, theirs = socket.socketpair()
    worker = _start(theirs, began)
    theirs.close()

    told_to_stop = False

    def pass_on(number: int, _frame: FrameType | None) -> None:
        nonlocal told_to_stop
        told_to_stop = True
        worker.send_signal(number)

    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGINT, pass_on)
    watch(on_notice=worker.terminate)
    _keep_leases(ours, environment)
    status = worker.wait()
    if status != 0 and told_to_stop:
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
    # Imported here: the inner process, which has more to load, was started first.
    from cosmos_batch.worker.clients import Clients
    from cosmos_batch.worker.leases import LeaseKeeper

    keeper = LeaseKeeper(channel, Clients().sqs, environment.queue_url, environment.worker.visibility_timeout_seconds)
    keeper.keep()


def _reason(environment: WorkerEnvironment, status: int) -> Error:
    how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
    log.error("the worker %s", how)
    return Error(
        code="EngineFailed",
        message=f"A worker of {environment.pipeline} {how}.",
        remedy=f"See the log of Batch job {environment.aws_batch_job_id}: an out-of-memory kill is SIGKILL.",
        retryable=True,
    )


def _record_end(environment: WorkerEnvironment, error: Error | None, cause: "Cause | None") -> None:
    """Leave the reason where `scale` looks for it, unless the inner process did so itself."""
    from cosmos_batch.state import Table, Workers
    from cosmos_batch.worker.clients import Clients

    table = Table(Clients().dynamodb, environment.state_table)
    Workers(table, environment.pipeline).ended(environment.aws_batch_job_id, error, cause=cause)
