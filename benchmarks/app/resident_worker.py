"""A worker in this process, with all real parts but the network to AWS."""

import asyncio
import os
import socket
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.app.instant_aws import InstantAws
from cosmos_batch.catalogue.pipelines import REASONER_CONTEXT
from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.contract.settings import WorkerSettings
from cosmos_batch.engines.protocol import Engine
from cosmos_batch.worker.assembly import assemble
from cosmos_batch.worker.clients import Clients
from cosmos_batch.worker.leases import LeaseHolder


@asynccontextmanager
async def serving(engine: Engine, model: Path, aws: InstantAws) -> AsyncIterator[None]:
    """Run a worker with `model` loaded on the queue of `aws` while the context lasts."""
    environment = WorkerEnvironment(
        aws_batch_job_id="bench",
        pipeline="cosmos-reason2-2b",
        model=str(model),
        engine="unused",
        queue_url="https://sqs.us-east-1.amazonaws.com/123456789012/bench",
        state_table="bench",
        state_bucket="state-bucket",
        model_bucket="model-bucket",
        model_store=str(model.parent),
        context=REASONER_CONTEXT,
        worker=WorkerSettings(idle_seconds=600),
    )
    os.environ |= {"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none", "AWS_DEFAULT_REGION": "us-east-1"}
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(Clients.connections))  # as `worker.serve` does
    clients = Clients()
    aws.answer_for(clients)
    ours, theirs = socket.socketpair()
    threading.Thread(target=_listen, args=(ours,), daemon=True).start()
    worker = assemble(environment, clients, LeaseHolder(theirs), engine)
    await worker.runner.model.load()
    at_work = asyncio.create_task(worker.serve())
    try:
        yield
    finally:
        worker.stop()
        await at_work
        worker.runner.model.engine.close()


async def drained(aws: InstantAws, deleted: int) -> None:
    """Wait until a number of messages was deleted."""
    while aws.deleted < deleted:
        await asyncio.sleep(0.01)


def _listen(channel: socket.socket) -> None:
    while channel.recv(1 << 16):
        pass
