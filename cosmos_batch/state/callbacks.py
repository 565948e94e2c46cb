"""Task tokens that wait for a job. They stand here, encrypted at rest, and in no history, message or log of ours."""

from cosmos_batch.state.table import ConditionFailed, Table, expires_at, now


class Callbacks:
    """One row for each job that somebody waits for."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def keep(self, job_id: str, task_token: str) -> None:
        """Store a token before the job starts; the same request again changes nothing."""
        try:
            self._table.put_new(
                f"job#{job_id}", "callback", {"taskToken": task_token, "since": now(), "expiresAt": expires_at()}
            )
        except ConditionFailed:
            return

    def waiting(self, job_id: str) -> str | None:
        """The token that still waits, or None."""
        item = self._table.get(f"job#{job_id}", "callback")
        return None if item is None or "answeredAt" in item else str(item["taskToken"])

    def answered(self, job_id: str) -> None:
        """Nobody waits any more; the token is forgotten."""
        self._table.update(f"job#{job_id}", "callback", "SET #answeredAt = :now REMOVE #taskToken", {"now": now()})
