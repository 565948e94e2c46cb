"""The models of a pipeline's guardrails, which are the model store's as its own model is."""

from dataclasses import dataclass
from typing import Self

from cosmos_batch.catalogue.generator_engines import guardrail_models
from cosmos_batch.catalogue.pipelines import pipeline_named
from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.contract.error import Failure
from cosmos_batch.store import Elsewhere, StoredModel
from cosmos_batch.worker.pinned_store import PinnedStore


@dataclass(frozen=True)
class Guardrails:
    """What they load, and the key of config.json that switches them off."""

    models: tuple[str, ...]
    key: str

    @classmethod
    def of(cls, environment: WorkerEnvironment) -> Self | None:
        """Those of a worker, if it has any that it loads itself."""
        serving, pipeline = environment.serving, pipeline_named(environment.pipeline)
        if pipeline is None or serving is None or not serving.guardrails or environment.endpoint is not None:
            return None
        key = f"app.pipelines.useNvidiaCosmos3.modelsOmni.{pipeline.config_key}.guardrails"
        return cls(guardrail_models(environment.engine), key)

    def ensure(self, store: PinnedStore | Elsewhere) -> list[StoredModel]:
        """Copies of all. Raises Failure (ModelUnavailable) that says how to do without, too."""
        return [self._ensure(store, model) for model in self.models]

    def _ensure(self, store: PinnedStore | Elsewhere, model: str) -> StoredModel:
        try:
            return store.ensure(model)
        except Failure as failure:
            error = failure.error
            raise Failure(
                error.code,
                f"The guardrails need {model}, which cannot be had: {error.message}",
                f"{error.remedy} Or do without guardrails: set {self.key} to false in config.json, and deploy.",
                error.retryable,
            ) from failure
