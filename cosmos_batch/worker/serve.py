"""The inner process of a worker: connect, load, serve, leave."""

import asyncio
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
from cosmos_batch.worker.assembly import assemble
from cosmos_batch.worker.clients import Clients
from cosmos_batch.worker.endpoint import engine_of
from cosmos_batch.worker.gpu_allocation import allocate_gpus
from cosmos_batch.worker.leases import LeaseHolder
from cosmos_batch.worker.logs import start_logging
from cosmos_batch.worker.mounts import prove_mounts
from cosmos_batch.worker.nvidia_driver import check_driver
from cosmos_batch.worker.scratch import worker_folder
from cosmos_batch.worker.supervisor import BEGAN, CHANNEL

FAILED = 1

log = logging.getLogger(__name__)


def main() -> int:
    """Returns 0 when there was no more work, 1 when the worker could not serve."""
    start_logging()
    with socket.socket(fileno=int(os.environ[CHANNEL])) as channel:
        return asyncio.run(_serve(WorkerEnvironment.read(), LeaseHolder(channel), float(os.environ[BEGAN])))


async def _serve(environment: WorkerEnvironment, leases: LeaseHolder, began: float) -> int:
    # Every job in hand may have a call under way, besides the long poll and the upload of a backup.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(Clients.connections))
    clients = Clients()
    worker = assemble(environment, clients, leases, engine_of(environment, clients))
    runner, workers = worker.runner, worker.runner.workers
    # The table and the queue are reached before the model is: who cannot load can still say so, and who cannot receive
    # counts as one that cannot load.
    row = await asyncio.to_thread(workers.started, environment.aws_batch_job_id)
    if row.must_drain:
        log.info("leaving: asked to before it began")
        workers.ended(environment.aws_batch_job_id)
        return 0
    worker.boot_seconds = time.time() - began
    await asyncio.to_thread(runner.queue.try_out)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, worker.stop)
    try:
        check_driver(environment.image_cuda)
        prove_mounts(environment)
        allocate_gpus(environment, runner.model.engine)
        with worker_folder(environment):
            if not await worker.unless_stopped(runner.model.load()):
                workers.ended(environment.aws_batch_job_id)
                os._exit(0)  # the thread that loads cannot be interrupted, and nothing is in hand
            await worker.serve()
            await worker.unless_stopped(runner.model.backed_up())
    except Failure as failure:
        return _give_up(workers, environment, failure.error)
    finally:
        runner.model.engine.close()  # and what it starts again in this moment, for which our end would wait
    workers.ended(environment.aws_batch_job_id)
    return 0


def _give_up(workers: Workers, environment: WorkerEnvironment, error: Error) -> int:
    """Leave the reason to `scale`: it knows whether other workers serve, and refuses what waits or lets it wait."""
    log.error("%s %s", error.message, error.remedy, extra={"code": error.code})
    workers.ended(environment.aws_batch_job_id, error)
    return FAILED


if __name__ == "__main__":
    sys.exit(main())
