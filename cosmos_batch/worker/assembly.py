"""The parts of a worker, put together."""

from pathlib import Path

from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.engines.protocol import Engine
from cosmos_batch.state import Jobs, Revisions, Table, Workers
from cosmos_batch.store import CompileCaches, Elsewhere, ModelStore
from cosmos_batch.worker.clients import Clients
from cosmos_batch.worker.commit import Committer
from cosmos_batch.worker.credentials import HubToken
from cosmos_batch.worker.endpoint import upsampler_of
from cosmos_batch.worker.guardrails import Guardrails
from cosmos_batch.worker.leases import LeaseHolder
from cosmos_batch.worker.loop import WorkerLoop
from cosmos_batch.worker.pinned_store import PinnedStore
from cosmos_batch.worker.queue import Queue
from cosmos_batch.worker.resident_model import ResidentModel
from cosmos_batch.worker.runner import Runner
from cosmos_batch.worker.slots import Slots
from cosmos_batch.worker.task_tokens import TaskTokens


def assemble(environment: WorkerEnvironment, clients: Clients, leases: LeaseHolder, engine: Engine) -> WorkerLoop:
    """A worker on an engine that has not loaded yet."""
    table = Table(clients.dynamodb, environment.state_table)
    jobs = Jobs(table)
    tasks = TaskTokens(clients.stepfunctions, environment.worker.heartbeat_seconds, environment.pipeline)
    queue = Queue(clients.sqs, environment.queue_url, leases)
    runner = Runner(
        environment=environment,
        clients=clients,
        jobs=jobs,
        workers=Workers(table, environment.pipeline),
        tasks=tasks,
        queue=queue,
        committer=Committer(clients.s3, jobs, tasks, queue, environment.state_bucket),
        model=ResidentModel(
            engine,
            _store(environment, clients, Revisions(table, environment.pipeline)),
            _caches(environment, clients),
            environment.model,
            environment.context,
            Guardrails.of(environment),
        ),
        slots=Slots(1 if engine.concurrency == 1 else 2 * engine.concurrency),
        upsampler=upsampler_of(environment, clients),
    )
    return WorkerLoop(runner)


def _store(environment: WorkerEnvironment, clients: Clients, revisions: Revisions) -> PinnedStore | Elsewhere:
    if environment.endpoint is not None:
        return Elsewhere()
    token = HubToken(environment.hf_token_secret, clients)
    store = ModelStore(Path(environment.model_store), environment.model_bucket, clients.s3, token.read)
    return PinnedStore(store, revisions, {environment.model: environment.model_revision})


def _caches(environment: WorkerEnvironment, clients: Clients) -> CompileCaches:
    """In the container's own file system: at one path on all workers, and nobody else's."""
    root = Path.home() / ".cache" / "cosmos-batch"
    return CompileCaches(root, environment.pipeline, environment.model_bucket, clients.s3)
