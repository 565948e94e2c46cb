"""The model that is resident in a worker's engine, and when it must be replaced."""

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.job import Job
from cosmos_batch.engines.protocol import CompilingEngine, Engine, HubGuardrailEngine, RemoteEngine
from cosmos_batch.store import CompileCaches, Elsewhere, StoredModel
from cosmos_batch.worker.guardrails import Guardrails
from cosmos_batch.worker.pinned_store import PinnedStore

log = logging.getLogger(__name__)


class ResidentModel:
    """One model in one engine."""

    def __init__(
        self,
        engine: Engine,
        store: PinnedStore | Elsewhere,
        caches: CompileCaches,
        model: str,
        context: int | None,
        guardrails: Guardrails | None = None,
    ) -> None:
        self.engine = engine
        self.load_seconds: dict[str, float] = {}
        self._store = store
        self._caches = caches
        self._model = model
        self._context = context
        self._guardrails = guardrails
        self._stored: StoredModel | None = None
        self._back_ups: list[asyncio.Future[None]] = []

    @property
    def stored(self) -> StoredModel:
        """The copy that is loaded."""
        assert self._stored is not None, "load comes first"
        return self._stored

    @property
    def is_loaded(self) -> bool:
        """False after a renewal that failed."""
        return self._stored is not None

    async def load(self, newer_than: datetime | None = None) -> None:
        """Find the model and those of its guardrails, download them if need be, load them, and back them up meanwhile.

        Raises Failure: ModelUnavailable where no copy can be had or the engine refuses it.
        """
        with self._timed("model"):
            stored = await asyncio.to_thread(self._store.ensure, self._model, newer_than)
            guards = await asyncio.to_thread(self._bring_guardrails)
        if isinstance(self.engine, CompilingEngine):
            with self._timed("caches"):
                await asyncio.to_thread(self._restore_caches, self.engine, stored)
        try:
            with self._timed("engine"):
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
        if isinstance(self.engine, RemoteEngine):  # which knows nothing of the configured name
            stored = replace(stored, model=self.engine.remote_model)
        self._stored = stored
        self._back_ups.append(asyncio.ensure_future(asyncio.to_thread(self._back_up, stored, *guards)))

    def too_old_for(self, job: Job) -> bool:
        """Whether the job asks for a copy newer than itself and the loaded one is older. A folder stays as it is."""
        if not job.invalidate_model or self._model.startswith("/"):
            return False
        return self._stored is None or self._stored.published_at <= job.created_at

    async def renew(self, job: Job) -> None:
        """Load a copy that is newer than the job. No other job may be in the engine. Raises as `load` does."""
        if not self.too_old_for(job):
            return  # another job's renewal served this one too
        log.info("a job asks for a new copy of %s", self._model, extra={"jobId": job.job_id})
        self.engine.close()
        self._stored = None
        await self.load(newer_than=job.created_at.astimezone(UTC))

    async def backed_up(self) -> None:
        """Wait until what was loaded is in S3, with all that was compiled meanwhile, or could not be put there."""
        await asyncio.gather(*self._back_ups)
        await asyncio.to_thread(self._caches.keep)

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        """Note how long it takes."""
        began = time.monotonic()
        yield
        self.load_seconds[phase] = round(time.monotonic() - began, 2)

    def _bring_guardrails(self) -> list[StoredModel]:
        if self._guardrails is None or not isinstance(self.engine, HubGuardrailEngine):
            return []
        guards = self._guardrails.ensure(self._store)
        self.engine.guardrail_models = {one.model: one.path for one in guards}
        return guards

    def _restore_caches(self, engine: CompilingEngine, stored: StoredModel) -> None:
        engine.caches = self._caches.restore(
            {**engine.compiled_for(), "model": stored.model, "revision": stored.commit}
        )

    def _back_up(self, *loaded: StoredModel) -> None:
        """A failure is logged: the model serves anyway."""
        self._caches.keep()
        for stored in loaded:
            try:
                if self._store.back_up(stored):
                    log.info("backed up %s to S3", stored.model)
            except Exception:
                log.exception("could not back up %s to S3; the next worker tries again", stored.model)
