"""Task tokens of the state machines that wait for a job.

They are stored only here, encrypted at rest, and appear in no execution history, message or log.
"""

from cosmos_batch.state.table import ConditionFailed, Table, expires_at, now


class Callbacks:
    """The rows of task tokens, one for each job that has a callback."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def keep(self, job_id: str, task_token: str) -> None:
        """Store a token before the job starts. Does nothing if the job has one already."""
        try:
            self._table.put_new(
                f"job#{job_id}", "callback", {"taskToken": task_token, "since": now(), "expiresAt": expires_at()}
            )
        except ConditionFailed:
            return

    def waiting(self, job_id: str) -> str | None:
        """Return the token that waits for the job, or None."""
        item = self._table.get(f"job#{job_id}", "callback")
        return None if item is None or "answeredAt" in item else str(item["taskToken"])

    def answered(self, job_id: str) -> None:
        """Note that the callback was answered, and delete the token."""
        self._table.update(f"job#{job_id}", "callback", "SET #answeredAt = :now REMOVE #taskToken", {"now": now()})
