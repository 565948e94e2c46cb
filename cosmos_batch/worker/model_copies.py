"""Choose the copies of models that a worker loads: the pipeline's model at one revision, and its guardrails' models."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from cosmos_batch.catalogue.engines import guardrail_models
from cosmos_batch.catalogue.pipelines import pipeline_named
from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.model_name import MAIN, is_commit
from cosmos_batch.state import Revisions
from cosmos_batch.store import ModelStore, StoredModel
from cosmos_batch.store.model_ids import is_folder


@dataclass(frozen=True)
class PinnedModelStore:
    """The model store, limited to one revision of each model for all workers of a pipeline (decision 065).

    `configured` has the revision of each model for which the configuration names one; the others follow `main`.
    """

    store: ModelStore
    revisions: Revisions
    configured: Mapping[str, str]

    def ensure(self, model: str, newer_than: datetime | None = None) -> StoredModel:
        """Return a local copy of the model at the commit that is configured or recorded for the pipeline.

        A checkpoint folder is used as it is. With `newer_than`, a tag or branch that was last resolved before then is
        resolved again, and the copy is fetched anew. The copy of the commit that was recorded before is dropped, unless
        another pipeline has recorded that commit, or names it in its configuration.

        Raises:
            Failure: `ModelUnavailable`.
        """
        if is_folder(model):
            return self.store.ensure(model)
        commit = self.resolve(model, newer_than)
        if newer_than is None:
            return self.store.ensure(model, commit=commit)
        return self.store.ensure(model, newer_than, commit=commit, replaces=self._replaced(model))

    def back_up(self, stored: StoredModel) -> bool:
        """Copy a model to S3 unless it is there, as `ModelStore.back_up` does. Returns True if it uploaded."""
        return self.store.back_up(stored)

    def resolve(self, model: str, newer_than: datetime | None) -> str:
        """Return the commit to load, and record it. With `newer_than`, the Hub is asked as described in `ensure`.

        No copy changes: if the Hub cannot be reached or refuses the model, the pipeline keeps the copies it has.

        Raises:
            Failure: `ModelUnavailable`.
        """
        revision = self.configured.get(model, MAIN)
        if is_commit(revision):
            self.revisions.record_pinned(model, revision)
            return revision if newer_than is None else self.store.latest(model, revision)
        recorded = self.revisions.get(model, revision)
        if recorded is not None and (newer_than is None or recorded.is_newer_than(newer_than)):
            return recorded.commit
        commit = self.store.resolve(model, revision) if newer_than is None else self.store.latest(model, revision)
        # Several jobs may ask for a newer copy before one is loaded: the commit that the first replaced stays noted.
        replaced = recorded.commit if recorded is not None and recorded.commit != commit else None
        return self.revisions.record(model, revision, commit, newer_than, replaced).commit

    def _replaced(self, model: str) -> str | None:
        """Return the commit that this pipeline's last invalidation replaced, unless another pipeline loads it."""
        revision = self.configured.get(model, MAIN)
        recorded = None if is_commit(revision) else self.revisions.get(model, revision)
        if recorded is None or recorded.replaced is None:
            return None
        shared = self.revisions.is_recorded_by_another(model, revision, recorded.replaced)
        return None if shared else recorded.replaced


class EndpointModel:
    """Takes the place of the model store where a remote server has the model: there is nothing to fetch or back up."""

    def ensure(self, model: str, _newer_than: datetime | None = None) -> StoredModel:
        """Return the model without files. Its commit is unknown, and no job can ask for a newer copy of it."""
        return StoredModel(model, self.resolve(model), Path(), datetime.max.replace(tzinfo=UTC))

    def resolve(self, _model: str, _newer_than: datetime | None = None) -> str:
        """Return the text that stands for a commit which only the server knows."""
        return "unknown"

    def back_up(self, _stored: StoredModel) -> bool:
        """Upload nothing and return False."""
        return False


@dataclass(frozen=True)
class GuardrailModels:
    """The names of the models that a pipeline's guardrails load, and the key of config.json that disables them."""

    models: tuple[str, ...]
    key: str

    @classmethod
    def of(cls, environment: WorkerEnvironment) -> Self | None:
        """Return the guardrail models that this worker loads itself; None if it loads none."""
        serving, pipeline = environment.serving, pipeline_named(environment.pipeline)
        if pipeline is None or serving is None or not serving.guardrails or environment.endpoint is not None:
            return None
        key = f"app.pipelines.useNvidiaCosmos3.modelsOmni.{pipeline.config_key}.guardrails"
        return cls(guardrail_models(environment.engine), key)

    def ensure(self, store: PinnedModelStore | EndpointModel) -> list[StoredModel]:
        """Return a local copy of each of these models.

        Raises Failure (ModelUnavailable), whose remedy also says how to run without guardrails.
        """
        return [self._ensure(store, model) for model in self.models]

    def _ensure(self, store: PinnedModelStore | EndpointModel, model: str) -> StoredModel:
        try:
            return store.ensure(model)
        except Failure as failure:
            error = failure.error
            raise Failure(
                error.code,
                f"The guardrails need {model}, which is not available: {error.message}",
                f"{error.remedy} Or do without guardrails: set {self.key} to false in config.json, and deploy.",
                error.retryable,
            ) from failure
