"""Creates the parts of a worker from its environment, and connects them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cosmos_batch.catalogue.pipelines import Surface
from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.engines.factory import create_endpoint_engine, create_engine
from cosmos_batch.engines.protocol import Engine, GuardrailEngine, LossyEngine
from cosmos_batch.state import ItemJobs, Revisions, Runs, StagedDocuments, Table, Workers
from cosmos_batch.store import CompileCaches, ModelStore
from cosmos_batch.worker.attempt_endings import AttemptEndings
from cosmos_batch.worker.callers import Callers
from cosmos_batch.worker.clients import Clients
from cosmos_batch.worker.commit import Committer
from cosmos_batch.worker.credentials import EndpointKey, HubToken
from cosmos_batch.worker.inference import Inference, JobsInHand
from cosmos_batch.worker.leases import LeaseHolder
from cosmos_batch.worker.loop import WorkerLoop
from cosmos_batch.worker.model_copies import EndpointModel, GuardrailModels, PinnedModelStore
from cosmos_batch.worker.queue import Queue
from cosmos_batch.worker.resident_model import ResidentModel
from cosmos_batch.worker.runner import Runner
from cosmos_batch.worker.task_tokens import TaskTokens

if TYPE_CHECKING:
    from cosmos_batch.engines.generator.upsampling import Upsampler


def assemble(environment: WorkerEnvironment, clients: Clients, leases: LeaseHolder, engine: Engine) -> WorkerLoop:
    """Return a worker around an engine that has not loaded its model yet."""
    table = Table(clients.dynamodb, environment.state_table)
    jobs = ItemJobs(table)
    task_tokens = TaskTokens(clients.stepfunctions, environment.worker.heartbeat_seconds, environment.pipeline)
    callers = Callers(task_tokens, jobs, Runs(table))
    queue = Queue(clients.sqs, environment.queue_url, leases)
    documents = StagedDocuments(table, clients.s3, environment.state_bucket)
    model = ResidentModel(
        engine,
        _store(environment, clients, Revisions(table, environment.pipeline)),
        _caches(environment, clients),
        environment.model,
        environment.context,
        GuardrailModels.of(environment),
    )
    committer = Committer(clients.s3, jobs, callers, queue, documents, environment.state_bucket)
    runner = Runner(
        environment=environment,
        clients=clients,
        jobs=jobs,
        workers=Workers(table, environment.pipeline),
        task_tokens=task_tokens,
        callers=callers,
        queue=queue,
        model=model,
        jobs_in_hand=JobsInHand(1 if engine.concurrency == 1 else 2 * engine.concurrency),
        inference=Inference(environment, engine, jobs, callers),
        endings=AttemptEndings(environment, jobs, callers, queue, committer, model),
        upsampler=_upsampler(environment, clients),
    )
    return WorkerLoop(runner)


def engine_for(environment: WorkerEnvironment, clients: Clients) -> Engine:
    """Return the engine that the environment names, not loaded yet, with the settings that it must have before."""
    serving, endpoint = environment.serving, environment.endpoint
    if endpoint is None:
        engine = create_engine(environment.engine)
    else:
        surface: Surface = "reasoner" if serving is None else "generator"
        engine = create_endpoint_engine(surface, endpoint, EndpointKey(endpoint.api_key_secret_arn, clients).read)
    if serving is not None and isinstance(engine, GuardrailEngine):
        engine.guardrails = serving.guardrails
    if isinstance(engine, LossyEngine):
        engine.lossy = environment.lossy if serving is None else serving.lossy
    return engine


def _upsampler(environment: WorkerEnvironment, clients: Clients) -> Upsampler | None:
    """Return the client of the server that rewrites prompts; None if none is configured."""
    if environment.upsampler is None:
        return None
    from cosmos_batch.engines.generator.upsampling import Upsampler

    return Upsampler(environment.upsampler, EndpointKey(environment.upsampler.api_key_secret_arn, clients).read)


def _store(environment: WorkerEnvironment, clients: Clients, revisions: Revisions) -> PinnedModelStore | EndpointModel:
    if environment.endpoint is not None:
        return EndpointModel()
    token = HubToken(environment.hf_token_secret, clients)
    store = ModelStore(Path(environment.model_store), environment.model_bucket, clients.s3, token.read)
    return PinnedModelStore(store, revisions, {environment.model: environment.model_revision})


def _caches(environment: WorkerEnvironment, clients: Clients) -> CompileCaches:
    """Return the compile caches in the container's own file system: the same path on all workers, shared with none."""
    root = Path.home() / ".cache" / "cosmos-batch"
    return CompileCaches(root, environment.pipeline, environment.model_bucket, clients.s3)
