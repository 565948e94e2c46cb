"""Recorded revisions: which commit all workers of a pipeline load for a revision of a model (decision 065).

A recorded commit changes only by `cosmos-batch models update`, or by a job with `INVALIDATE_COSMOS_MODELS`. So workers
that start months apart load the same commit, even if the Hub has a newer one.
"""

from datetime import UTC, datetime

from pydantic import Field

from cosmos_batch.catalogue.pipelines import PIPELINES
from cosmos_batch.contract.model_name import MAIN
from cosmos_batch.state.table import ConditionFailed, Table, TableRow, now


class RecordedRevision(TableRow):
    """The commit that is recorded for a tag or branch of a model, or a commit that the configuration names itself."""

    model: str = Field(description="Hugging Face id")
    revision: str = Field(description="The tag, branch or commit that is configured")
    commit: str
    resolved_at: str = Field(description="ISO 8601, UTC")
    replaced: str | None = Field(
        default=None, description="The commit that was recorded before the last invalidation, if any"
    )

    def is_newer_than(self, moment: datetime) -> bool:
        """Return whether it was resolved after `moment`."""
        return datetime.fromisoformat(self.resolved_at) > moment


class Revisions:
    """The recorded revisions of one pipeline, one for each model and tag or branch."""

    def __init__(self, table: Table, pipeline: str) -> None:
        self._table = table
        self._pipeline = pipeline
        self._pk = f"pipeline#{pipeline}"

    def list(self) -> list[RecordedRevision]:
        """Return all recorded revisions of the pipeline, including those of models that it used before."""
        return [RecordedRevision.model_validate(item) for item in self._table.query(self._pk, "revision#")]

    def get(self, model: str, revision: str) -> RecordedRevision | None:
        """Return the recorded revision, or None if no worker has resolved it yet."""
        item = self._table.get(self._pk, _sk(model, revision))
        return None if item is None else RecordedRevision.model_validate(item)

    def is_recorded_by_another(self, model: str, revision: str, commit: str) -> bool:
        """Return whether another pipeline has recorded this commit of the model: for `revision`, for `main`, or
        because its configuration names the commit.
        """
        others = [Revisions(self._table, other.id) for other in PIPELINES if other.id != self._pipeline]
        records = (other.get(model, name) for other in others for name in dict.fromkeys((revision, MAIN, commit)))
        return any(record is not None and record.commit == commit for record in records)

    def record_pinned(self, model: str, commit: str) -> None:
        """Record that the pipeline's configuration names this commit, so that no other pipeline drops its copies."""
        if self.get(model, commit) is None:
            self.record(model, commit, commit)

    def record(
        self,
        model: str,
        revision: str,
        commit: str,
        unless_since: datetime | None = None,
        replaced: str | None = None,
    ) -> RecordedRevision:
        """Record a commit, unless one is recorded; with `unless_since`, unless one was recorded after that time.

        An invalidation also records the commit that it `replaced`, so that workers on other hosts drop their copies of
        it. Returns what is recorded. If two workers resolve at once, both load what the first one recorded.
        """
        values = {"model": model, "revision": revision, "commit": commit, "now": now()}
        condition = "attribute_not_exists(#commit)"
        expression = "SET #model = :model, #revision = :revision, #commit = :commit, #resolvedAt = :now"
        if replaced is not None:
            values["replaced"] = replaced
            expression += ", #replaced = :replaced"
        if unless_since is not None:
            values["since"] = unless_since.astimezone(UTC).isoformat(timespec="milliseconds")
            condition += " OR #resolvedAt <= :since"
        try:
            item = self._table.update(self._pk, _sk(model, revision), expression, values, condition)
        except ConditionFailed:
            item = self._table.get(self._pk, _sk(model, revision)) or {}
        return RecordedRevision.model_validate(item)


def _sk(model: str, revision: str) -> str:
    return f"revision#{model}@{revision}"
