"""The place of a model store where there is nothing to store: the model is resident on somebody else's server."""

from datetime import UTC, datetime
from pathlib import Path

from cosmos_batch.store.copies import StoredModel
from cosmos_batch.store.progress import Progress, silent

UNKNOWN = "unknown"


class Elsewhere:
    """As a `ModelStore`, of models that others keep."""

    def ensure(self, model: str, _newer_than: datetime | None = None, _on_progress: Progress = silent) -> StoredModel:
        """The model as it is. No copy is newer, for we have none; its commit only the server knows."""
        return StoredModel(model, UNKNOWN, Path(), datetime.max.replace(tzinfo=UTC))

    def back_up(self, _stored: StoredModel) -> bool:
        """Nothing."""
        return False
