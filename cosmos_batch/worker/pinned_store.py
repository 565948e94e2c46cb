"""The model store as the workers of one pipeline use it: all of them load one revision of a model."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from cosmos_batch.contract.model_name import MAIN, is_commit
from cosmos_batch.state import Revisions
from cosmos_batch.store import ModelStore, StoredModel
from cosmos_batch.store.model_ids import is_folder


@dataclass(frozen=True)
class PinnedStore:
    """`configured` has the revision of each model for which the configuration names one; the others follow `main`."""

    store: ModelStore
    revisions: Revisions
    configured: Mapping[str, str]

    def ensure(self, model: str, newer_than: datetime | None = None) -> StoredModel:
        """The copy to load, at the commit that is configured or recorded for the pipeline; a folder as it is.

        With `newer_than`, a tag or branch is resolved again unless that was done since, and the copy is fetched anew.

        Raises:
            Failure: `ModelUnavailable`.
        """
        if is_folder(model):
            return self.store.ensure(model)
        return self.store.ensure(model, newer_than, commit=self._commit(model, newer_than))

    def back_up(self, stored: StoredModel) -> bool:
        """As the store does."""
        return self.store.back_up(stored)

    def _commit(self, model: str, newer_than: datetime | None) -> str:
        revision = self.configured.get(model, MAIN)
        if is_commit(revision):
            return revision
        recorded = self.revisions.get(model, revision)
        if recorded is not None and (newer_than is None or recorded.is_newer_than(newer_than)):
            return recorded.commit
        # Before anything is dropped: where the Hub cannot be asked, the pipeline goes on with what it has.
        commit = self.store.resolve(model, revision) if newer_than is None else self.store.latest(model, revision)
        return self.revisions.record(model, revision, commit, unless_since=newer_than).commit
