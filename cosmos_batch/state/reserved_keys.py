"""The S3 keys of results, each reserved for one job, so that no result can overwrite another."""

from collections.abc import Callable
from datetime import datetime, timedelta

from cosmos_batch.contract.job import OutputKey
from cosmos_batch.state.table import ConditionFailed, Table, expires_at

# The timestamp in a key has a resolution of a second. This is how many seconds are tried, and so the number of jobs on
# files of one stem within one folder that can start at once.
SECONDS_TRIED = 600


def _pk(bucket: str, key: str) -> str:
    return f"output#{bucket}/{key}"


class ReservedKeys:
    """The rows of reserved keys."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def reserve(self, output: OutputKey, job_id: str) -> bool:
        """Reserve a key for a job, and return whether the key is this job's, now or since an earlier call."""
        row = {"jobId": job_id, "expiresAt": expires_at()}
        try:
            self._table.put_new(_pk(output.bucket, output.key), "output", row)
            return True
        except ConditionFailed:
            return self.owner(output.bucket, output.key) == job_id

    def reserve_second(
        self, start: datetime, job_id: str, key_at: Callable[[str], OutputKey]
    ) -> tuple[OutputKey, str] | None:
        """Reserve the key of the first free second from `start` on, and return the key and the timestamp in it.

        `key_at` returns the key that has a timestamp. The same job gets the same key again. Return None where the keys
        of all `SECONDS_TRIED` seconds are other jobs'.
        """
        for seconds in range(SECONDS_TRIED):
            timestamp = f"{start + timedelta(seconds=seconds):%Y%m%d-%H%M%S}"
            output = key_at(timestamp)
            if self.reserve(output, job_id):
                return output, timestamp
        return None

    def owner(self, bucket: str, key: str) -> str | None:
        """Return the id of the job that a key is reserved for; None if no job may write it."""
        item = self._table.get(_pk(bucket, key), "output")
        return None if item is None else str(item["jobId"])
