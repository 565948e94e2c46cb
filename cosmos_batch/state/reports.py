"""Which ends of jobs the world was told of."""

from cosmos_batch.state.table import ConditionFailed, Table, expires_at, now


class Reports:
    """One row for each job whose end was published; a job that `plan` refused has this row and no other."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def published(self, job_id: str) -> bool:
        """Whether somebody published this end already."""
        return self._table.get(f"job#{job_id}", "report") is not None

    def note(self, job_id: str) -> None:
        """This end was published; noted again, it stays as it is."""
        try:
            self._table.put_new(f"job#{job_id}", "report", {"at": now(), "expiresAt": expires_at()})
        except ConditionFailed:
            return
