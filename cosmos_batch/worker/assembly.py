"""Creates the parts of a worker from its environment, and connects them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.engines.factory import create_engine
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
    from collections.abc import Callable

    from cosmos_batch.contract.endpoint import Endpoint
    from cosmos_batch.engines.generator.nim.endpoint import NimEndpointEngine
    from cosmos_batch.engines.generator.upsampling import Upsampler
    from cosmos_batch.engines.generator.vllm_omni.endpoint import OmniEndpointEngine


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
    if environment.endpoint is None:
        engine = create_engine(environment.engine)
        if environment.serving is not None and isinstance(engine, GuardrailEngine):
            engine.guardrails = environment.serving.guardrails
        if isinstance(engine, LossyEngine):
            engine.lossy = environment.lossy if environment.serving is None else environment.serving.lossy
        return engine
    key = EndpointKey(environment.endpoint.api_key_secret_arn, clients).read
    if environment.serving is None:
        from cosmos_batch.engines.reasoner.endpoint import EndpointEngine

        return EndpointEngine(environment.endpoint, key)
    generator = _remote_generator(environment.endpoint, key)
    generator.guardrails = environment.serving.guardrails
    return generator


def _remote_generator(endpoint: Endpoint, key: Callable[[], str | None]) -> OmniEndpointEngine | NimEndpointEngine:
    if endpoint.api == "nim":
        from cosmos_batch.engines.generator.nim.endpoint import NimEndpointEngine

        return NimEndpointEngine(endpoint, key)
    from cosmos_batch.engines.generator.vllm_omni.endpoint import OmniEndpointEngine

    return OmniEndpointEngine(endpoint, key)


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
