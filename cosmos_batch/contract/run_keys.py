"""The keys of a run's objects in the state bucket. `cosmos_batch.contract.runs` says what each object holds."""

from dataclasses import dataclass

RESULTS, ERRORS = "results", "errors"  # the folders of a run with the lines of its items


@dataclass(frozen=True)
class RunKeys:
    """The keys of the objects of one run."""

    run: str

    @property
    def prefix(self) -> str:
        """Return the prefix of all objects of the run."""
        return f"runs/{self.run}/"

    @property
    def claim(self) -> str:
        """Return the key of the claim, which is written before any other object of the run."""
        return f"{self.prefix}claim.json"

    @property
    def request(self) -> str:
        """Return the key of the run's request, which holds what all items ask."""
        return f"{self.prefix}run.json"

    @property
    def shards(self) -> str:
        """Return the key of the list of all shards, which the Distributed Map of a run with one pipeline reads."""
        return f"{self.prefix}shards.json"

    def shards_of(self, pipeline: str) -> str:
        """Return the key of the list of one pipeline's shards.

        A run with several pipelines has such a list, and a Distributed Map that reads it, for each of them.
        """
        return f"{self.prefix}shards-{pipeline}.json"

    @property
    def estimate(self) -> str:
        """Return the key of the GPU time that the plan expects of an item."""
        return f"{self.prefix}estimate.json"

    @property
    def summary(self) -> str:
        """Return the key of the summary."""
        return f"{self.prefix}summary.json"

    def shard(self, shard: str) -> str:
        """Return the key of the items of a shard."""
        return f"{self.prefix}shards/{shard}.jsonl"

    def planned(self, execution: str, shard: str) -> str:
        """Return the key of the planned items of a shard: the jobs and errors that an execution made of its items."""
        return f"{self.prefix}planned/{execution}/{shard}.jsonl"

    def folder(self, folder: str) -> str:
        """Return the key prefix of the run's results or errors; `folder` is `RESULTS` or `ERRORS`."""
        return f"{self.prefix}{folder}/"

    def lines(self, folder: str, shard: str) -> str:
        """Return the key of the lines of a shard in one of these folders."""
        return f"{self.folder(folder)}{shard}.jsonl"
