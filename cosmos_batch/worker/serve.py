"""The inner process of a worker: connect, load, serve, leave."""

import asyncio
import logging
import os
import signal
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.contract.error import Error, Failure
from cosmos_batch.engines import create
from cosmos_batch.state import Jobs, Table, Workers
from cosmos_batch.store import ModelStore
from cosmos_batch.worker.clients import Clients
from cosmos_batch.worker.commit import Committer
from cosmos_batch.worker.leases import LeaseHolder
from cosmos_batch.worker.model import ResidentModel
from cosmos_batch.worker.queue import Queue
from cosmos_batch.worker.runner import Runner
from cosmos_batch.worker.slots import Slots
from cosmos_batch.worker.supervisor import CHANNEL
from cosmos_batch.worker.tasks import Tasks
from cosmos_batch.worker.worker import Worker

FAILED = 1

log = logging.getLogger(__name__)


def main() -> int:
    """Returns 0 when there was no more work, 1 when the worker could not serve."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    for chatty in ("botocore", "httpx2"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    with socket.socket(fileno=int(os.environ[CHANNEL])) as channel:
        return asyncio.run(_serve(WorkerEnvironment.read(), LeaseHolder(channel)))


async def _serve(environment: WorkerEnvironment, leases: LeaseHolder) -> int:
    # Every job in hand may have a call under way, besides the long poll and the upload of a backup.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(Clients.connections))
    clients = Clients()
    table = Table(clients.dynamodb, environment.state_table)
    workers = Workers(table, environment.pipeline)
    queue = Queue(clients.sqs, environment.queue_url, leases)
    # The table and the queue are reached before the model is: who cannot load can still say so, and who cannot receive
    # counts as one that cannot load.
    await asyncio.to_thread(workers.started, environment.aws_batch_job_id)
    await asyncio.to_thread(queue.try_out)
    model = ResidentModel(create(environment.engine), _store(environment, clients), environment.model)
    worker = Worker(_runner(environment, clients, table, queue, model))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, worker.stop)
    try:
        if not await worker.unless_stopped(model.load()):
            workers.ended(environment.aws_batch_job_id)
            os._exit(0)  # the thread that loads cannot be interrupted, and nothing is in hand
        await worker.serve()
        await worker.unless_stopped(model.backed_up())
    except Failure as failure:
        return await _give_up(worker, workers, environment, failure.error)
    model.engine.close()
    workers.ended(environment.aws_batch_job_id)
    return 0


async def _give_up(worker: Worker, workers: Workers, environment: WorkerEnvironment, error: Error) -> int:
    """Where no other worker could do better, answer the queue; else leave it to the next, and to the breaker."""
    log.error("%s: %s %s", error.code, error.message, error.remedy)
    workers.ended(environment.aws_batch_job_id, error)
    if not error.retryable:
        failed = await worker.fail_backlog(error)
        log.error("failed %d waiting jobs with this error", failed)
    return FAILED


def _store(environment: WorkerEnvironment, clients: Clients) -> ModelStore:
    def token() -> str | None:
        if environment.hf_token_secret is None:
            return None
        try:
            secret = clients.secretsmanager.get_secret_value(SecretId=environment.hf_token_secret)
        except clients.secretsmanager.exceptions.ResourceNotFoundException:
            return None  # the secret exists without a value until a token is configured
        value: str = secret["SecretString"]
        return value or None

    return ModelStore(Path(environment.model_store), environment.model_bucket, clients.s3, token)


def _runner(
    environment: WorkerEnvironment, clients: Clients, table: Table, queue: Queue, model: ResidentModel
) -> Runner:
    jobs = Jobs(table)
    tasks = Tasks(clients.stepfunctions, environment.worker.heartbeat_seconds)
    return Runner(
        environment=environment,
        clients=clients,
        jobs=jobs,
        workers=Workers(table, environment.pipeline),
        tasks=tasks,
        queue=queue,
        committer=Committer(clients.s3, jobs, tasks, queue, environment.state_bucket),
        model=model,
        slots=Slots(model.engine.concurrency),
    )


if __name__ == "__main__":
    sys.exit(main())
