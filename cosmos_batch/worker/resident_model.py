"""The model in a worker's engine: loads it, backs it up, and replaces it when a job wants a newer copy."""

import asyncio
import logging
from dataclasses import replace
from datetime import UTC, datetime

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.job import Job
from cosmos_batch.engines.journal import timed
from cosmos_batch.engines.protocol import CompilingEngine, Engine, HubGuardrailEngine, RemoteEngine
from cosmos_batch.store import CompileCaches, StoredModel
from cosmos_batch.worker.model_copies import EndpointModel, GuardrailModels, PinnedModelStore

log = logging.getLogger(__name__)


class ResidentModel:
    """A model in a worker's engine. `load_seconds` holds how long each phase of the last load took."""

    def __init__(
        self,
        engine: Engine,
        store: PinnedModelStore | EndpointModel,
        caches: CompileCaches,
        model: str,
        context: int | None,
        guardrails: GuardrailModels | None = None,
    ) -> None:
        self.engine = engine
        self.load_seconds: dict[str, float] = {}
        self._store = store
        self._caches = caches
        self._model = model
        self._context = context
        self._guardrails = guardrails
        self._stored: StoredModel | None = None
        self._stored_guardrails: list[StoredModel] = []
        self._back_ups: list[asyncio.Future[None]] = []

    @property
    def stored(self) -> StoredModel:
        """Return the copy of the model that is loaded."""
        assert self._stored is not None, "`load` comes first"
        return self._stored

    @property
    def guardrail_commits(self) -> dict[str, str]:
        """Return the loaded commit of each model of the guardrails."""
        return {stored.model: stored.commit for stored in self._stored_guardrails}

    @property
    def is_loaded(self) -> bool:
        """Return whether a model is loaded; False after a renewal that failed."""
        return self._stored is not None

    async def load(self, newer_than: datetime | None = None) -> None:
        """Load the model and those of its guardrails, downloading what is missing; the backup to S3 goes on after it.

        Raises Failure: ModelUnavailable where there is no copy to load, EngineFailed where the engine cannot load it.
        """
        with timed(self.load_seconds, "model"):
            stored = await asyncio.to_thread(self._store.ensure, self._model, newer_than)
            guardrails = await asyncio.to_thread(self._fetch_guardrails)
        if isinstance(self.engine, CompilingEngine):
            with timed(self.load_seconds, "caches"):
                await asyncio.to_thread(self._restore_caches, self.engine, stored)
        try:
            with timed(self.load_seconds, "engine"):
                await asyncio.to_thread(self.engine.load, stored.path, self._context)
        except Failure:
            raise
        except Exception as error:
            raise Failure(
                "EngineFailed",
                f"{self.engine.name} could not load {stored.model}: {type(error).__name__}: {error}",
                "See the worker's log. If the model does not fit this GPU, choose another instance type; if its files "
                "are broken, run once with INVALIDATE_COSMOS_MODELS.",
                retryable=True,
            ) from error
        if isinstance(self.engine, RemoteEngine):  # the server has a name of its own for the model
            stored = replace(stored, model=self.engine.remote_model)
        self._stored, self._stored_guardrails = stored, guardrails
        self._back_ups.append(asyncio.ensure_future(asyncio.to_thread(self._back_up, stored, *guardrails)))

    def too_old_for(self, job: Job) -> bool:
        """Return whether the job wants a copy that is newer than the job (INVALIDATE_COSMOS_MODELS), and ours is older.

        False for a checkpoint folder, which is used as it is.
        """
        if not job.invalidate_model or self._model.startswith("/"):
            return False
        return self._stored is None or self._stored.published_at <= job.created_at

    async def find_newer(self, job: Job) -> None:
        """Ask the Hub for the copy that `renew` will load.

        Raises Failure (ModelUnavailable) if the Hub cannot be reached or refuses the model, which stays loaded then.
        """
        log.info("a job asks for a new copy of %s", self._model, extra={"jobId": job.job_id})
        await asyncio.to_thread(self._store.resolve, self._model, _requested_at(job))

    async def renew(self, job: Job) -> None:
        """Load a copy that is newer than the job, unless that is done. No other job may be in the engine.

        Call `find_newer` first. Raises Failure as `load` does; no model is loaded then.
        """
        if not self.too_old_for(job):
            return  # another job has renewed the model meanwhile
        self.engine.close()
        self._stored = None
        await self.load(newer_than=_requested_at(job))

    async def backed_up(self) -> None:
        """Wait until the loaded models and the compile caches are in S3, or until storing them has failed."""
        await asyncio.gather(*self._back_ups)
        await asyncio.to_thread(self._caches.keep)

    def _fetch_guardrails(self) -> list[StoredModel]:
        if self._guardrails is None or not isinstance(self.engine, HubGuardrailEngine):
            return []
        stored = self._guardrails.ensure(self._store)
        self.engine.guardrail_models = {guardrail.model: guardrail.path for guardrail in stored}
        return stored

    def _restore_caches(self, engine: CompilingEngine, stored: StoredModel) -> None:
        engine.caches = self._caches.restore(
            {**engine.compiled_for(), "model": stored.model, "revision": stored.commit}
        )

    def _back_up(self, *loaded: StoredModel) -> None:
        """Back up to S3. A failure is only logged: the models can be used all the same."""
        self._caches.keep()
        for stored in loaded:
            try:
                if self._store.back_up(stored):
                    log.info("backed up %s to S3", stored.model)
            except Exception:
                log.exception("could not back up %s to S3; the next worker tries again", stored.model)


def _requested_at(job: Job) -> datetime:
    """Return the time since which a copy must have been published to be newer than the job."""
    return job.created_at.astimezone(UTC)
