"""How many items of a run have been fed to each of its pipelines, how many of those needed a job, and what jobs took.

`scale` estimates by these numbers how many jobs the items make that are not fed yet, and `feed` what they will cost.
"""

from pydantic import Field

from cosmos_batch.state.run_rows import RUN_KEEP_SECONDS, run_pk
from cosmos_batch.state.table import Table, TableRow, expires_at


class FedItems(TableRow):
    """The numbers of items that a run has fed to one pipeline."""

    items: int = Field(default=0, description="Items of the shards that were fed, each shard counted once")
    needed: int = Field(default=0, description="Those of them that had neither an answer nor an error when fed")

    ended_jobs: int = Field(
        default=0, description="Jobs that have taken GPU time, of shards that have ended without a cancelled item"
    )
    gpu_seconds: float = Field(default=0.0, description="What these jobs have taken")

    @property
    def needed_share(self) -> float:
        """Return the share of the items that needed a job; 0 while nothing is fed, because it is not known then."""
        return self.needed / self.items if self.items else 0.0


class RunFeeding:
    """The rows that say what runs have fed to their pipelines."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def get(self, run: str, pipeline: str) -> FedItems:
        """Return the numbers of items that a run has fed to a pipeline; all are 0 before it has fed any."""
        return FedItems.model_validate(self._table.get(run_pk(run), f"fed#{pipeline}") or {})

    def add_ended(self, run: str, pipeline: str, jobs: int, gpu_seconds: float) -> None:
        """Count the jobs of a shard that has ended, as far as they have taken GPU time."""
        values = {"jobs": jobs, "seconds": gpu_seconds}
        self._table.update(run_pk(run), f"fed#{pipeline}", "ADD #endedJobs :jobs, #gpuSeconds :seconds", values)

    def add(self, run: str, pipeline: str, items: int, needed: int) -> None:
        """Count a shard that is fed for the first time; negative numbers take back one that is to be fed again."""
        values = {"items": items, "needed": needed, "later": expires_at(RUN_KEEP_SECONDS)}
        self._table.update(
            run_pk(run), f"fed#{pipeline}", "SET #expiresAt = :later ADD #items :items, #needed :needed", values
        )
