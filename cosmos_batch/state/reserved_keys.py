"""Final keys, each reserved for one job: two results can never take one name."""

from cosmos_batch.contract.job import OutputKey
from cosmos_batch.state.table import ConditionFailed, Table, expires_at


def _pk(bucket: str, key: str) -> str:
    return f"output#{bucket}/{key}"


class ReservedKeys:
    """The reserved keys."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def reserve(self, output: OutputKey, job_id: str) -> bool:
        """Whether the key is this job's: newly, or since an earlier try."""
        row = {"jobId": job_id, "expiresAt": expires_at()}
        try:
            self._table.put_new(_pk(output.bucket, output.key), "output", row)
            return True
        except ConditionFailed:
            return self.owner(output.bucket, output.key) == job_id

    def owner(self, bucket: str, key: str) -> str | None:
        """The job that a key is reserved for, or None: then the object there is not ours."""
        item = self._table.get(_pk(bucket, key), "output")
        return None if item is None else str(item["jobId"])
