"""Record which jobs' ends were published as an event, so that a repeated report publishes none again.

A process that ends between the event and this record leaves the event to be published twice. EventBridge too delivers
an event at least once, and not exactly once.
"""

from cosmos_batch.state.table import ConditionFailed, Table, expires_at, now


class Reports:
    """The rows of jobs whose end was published, one for each. A job that `plan` refused has no other row."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def published(self, job_id: str) -> bool:
        """Return whether the end of this job was published."""
        return self._table.get(f"job#{job_id}", "report") is not None

    def note(self, job_id: str) -> None:
        """Note that the end of this job was published. Idempotent."""
        try:
            self._table.put_new(f"job#{job_id}", "report", {"at": now(), "expiresAt": expires_at()})
        except ConditionFailed:
            return
