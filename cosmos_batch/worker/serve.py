"""The inner process of a worker: connects to AWS, checks its host, loads the model, and runs the loop."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.contract.error import Error, Failure
from cosmos_batch.state import Workers
from cosmos_batch.worker.assembly import assemble, engine_for
from cosmos_batch.worker.clients import Clients
from cosmos_batch.worker.gpu_allocation import allocate_gpus
from cosmos_batch.worker.leases import LeaseHolder
from cosmos_batch.worker.logs import start_logging
from cosmos_batch.worker.mounts import check_mounts
from cosmos_batch.worker.nvidia_driver import check_driver
from cosmos_batch.worker.queue import InvalidMessage, NewerSchema, read_message
from cosmos_batch.worker.runner import Runner
from cosmos_batch.worker.scratch import worker_folder
from cosmos_batch.worker.supervisor import BEGAN, CHANNEL

FAILED = 1

log = logging.getLogger(__name__)


def main() -> int:
    """Serve until there is no more work. Returns 0 then, and 1 if the worker could not serve."""
    start_logging()
    with socket.socket(fileno=int(os.environ[CHANNEL])) as channel:
        return asyncio.run(_serve(WorkerEnvironment.read(), LeaseHolder(channel), float(os.environ[BEGAN])))


async def _serve(environment: WorkerEnvironment, leases: LeaseHolder, began: float) -> int:
    # Every job in hand may have a blocking call under way, beside the long poll and the upload of a backup.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(Clients.connections))
    clients = Clients()
    loop = assemble(environment, clients, leases, engine_for(environment, clients))
    runner, workers = loop.runner, loop.runner.workers
    # The table and the queue come before the model: a worker that cannot load it can write the reason to its row, and
    # one that may not receive ends like one that cannot load.
    row = await asyncio.to_thread(workers.started, environment.aws_batch_job_id)
    if row.must_drain:
        log.info("leaving: `scale` asked for it before the worker started")
        workers.ended(environment.aws_batch_job_id)
        return 0
    loop.boot_seconds = time.time() - began
    await asyncio.to_thread(_check_queue, runner)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, loop.stop)
    try:
        check_driver(environment.image_cuda)
        check_mounts(environment)
        allocate_gpus(environment, runner.model.engine)
        with worker_folder(environment):
            if not await loop.unless_stopped(runner.model.load()):
                workers.ended(environment.aws_batch_job_id)
                os._exit(0)  # the thread that loads cannot be interrupted, and nothing is in hand
            await loop.serve()
            await loop.unless_stopped(runner.model.backed_up())
    except Failure as failure:
        return _give_up(workers, environment, failure.error)
    finally:
        runner.model.engine.close()  # also processes that it is starting now, for which our exit would wait
    workers.ended(environment.aws_batch_job_id)
    return 0


def _check_queue(runner: Runner) -> None:
    """See that this worker may receive. Raises ClientError where it may not.

    SQS counts a receipt of the message that came, so it is noted as given back: workers that cannot load would else use
    up the receipts of a job that waits (`MAX_RECEIPTS`).
    """
    for message in runner.queue.check_access():
        with contextlib.suppress(NewerSchema, InvalidMessage):  # the loop handles these
            runner.jobs.count_give_back(read_message(message).job.job_id)


def _give_up(workers: Workers, environment: WorkerEnvironment, error: Error) -> int:
    """Write the reason to the worker's row. `scale` decides by it whether waiting jobs fail or go on waiting."""
    log.error("%s %s", error.message, error.remedy, extra={"code": error.code})
    workers.ended(environment.aws_batch_job_id, error)
    return FAILED


if __name__ == "__main__":
    sys.exit(main())
