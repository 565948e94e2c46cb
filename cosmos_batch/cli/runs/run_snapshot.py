"""Read the state of a run now: how many of its items have ended, are under way or wait, and what it has cost."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.runs.stored_run import stored_run
from cosmos_batch.state import RunRow, ShardRow


@dataclass(frozen=True)
class RunCounts:
    """The sums over a run's shards. `succeeded` has the items that an earlier run had answered, too."""

    items: int
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    reused: int = 0
    in_flight: int = 0
    gpu_seconds: float = 0.0
    dollars: float = 0.0

    @property
    def done(self) -> int:
        """Return how many items have ended."""
        return self.succeeded + self.failed + self.cancelled

    @property
    def waiting(self) -> int:
        """Return how many items are not in a queue yet."""
        return max(0, self.items - self.done - self.in_flight)


@dataclass(frozen=True)
class RunSnapshot:
    """A run's row and counts. `row` is None while the run is written and not begun."""

    run: str
    row: RunRow | None
    counts: RunCounts

    @property
    def name(self) -> str:
        """Return its state as a person reads it."""
        if self.row is None:
            return "NOT BEGUN"
        if self.row.ended_at is None and self.row.state in ("HELD", "CANCELLED"):
            return f"{self.row.state}, ending"
        return self.row.state

    @property
    def over(self) -> bool:
        """Return whether it has ended, or is held until a person resumes it."""
        return self.row is not None and self.row.ended_at is not None

    def to_json(self) -> dict[str, Any]:
        """Return the row and the counts as JSON, by names in camel case as in the run's other objects."""
        row = {} if self.row is None else self.row.model_dump(mode="json", by_alias=True, exclude={"execution_arn"})
        counts = {
            "succeeded": self.counts.succeeded,
            "failed": self.counts.failed,
            "cancelled": self.counts.cancelled,
            "reused": self.counts.reused,
            "inFlight": self.counts.in_flight,
            "waiting": self.counts.waiting,
            "gpuSeconds": self.counts.gpu_seconds,
            "dollars": self.counts.dollars,
        }
        return {"id": self.run, "state": None, **row, "items": self.counts.items, **counts}


def read_run_snapshot(deployment: Deployment, run: str) -> RunSnapshot:
    """Return the state of a run. Raises CliError where there is no such run."""
    objects = stored_run(deployment, run)
    row = deployment.runs.get(run)
    if row is None:
        objects.request()
        return RunSnapshot(run, None, RunCounts(sum(shard.items for shard in objects.shards())))
    return RunSnapshot(run, row, counts_of(row, deployment.runs.shards.of_run(run)))


def counts_of(row: RunRow, shards: Iterable[ShardRow]) -> RunCounts:
    """Return the sums over the shards of a run that have been fed.

    Those of a resumed run that its new execution has still to open again are left out: their items wait.
    """
    execution = (row.execution_arn or "").rpartition(":")[2]
    goes_on = row.ended_at is None and not row.stops
    sums: dict[str, float] = dict.fromkeys(("succeeded", "failed", "cancelled", "reused"), 0)
    in_flight, gpu_seconds, dollars = 0, 0.0, 0.0
    for shard in shards:
        if goes_on and shard.is_opened_by(execution):
            continue
        for name in sums:
            sums[name] += getattr(shard, name)
        if shard.in_flight:
            in_flight += max(0, shard.items - shard.done)
        gpu_seconds += shard.gpu_seconds
        dollars += shard.dollars
    counts = {name: int(number) for name, number in sums.items()}
    return RunCounts(row.items, **counts, in_flight=in_flight, gpu_seconds=gpu_seconds, dollars=dollars)


def quick_run_snapshot(deployment: Deployment, row: RunRow) -> RunSnapshot:
    """Return the state of a run whose row is known. That of a run that has ended is read from its summary."""
    summary = stored_run(deployment, row.id).summary() if row.ended_at is not None else None
    if summary is None:
        return RunSnapshot(row.id, row, counts_of(row, deployment.runs.shards.of_run(row.id)))
    counts = RunCounts(
        items=summary.items,
        succeeded=summary.succeeded,
        failed=summary.failed,
        cancelled=summary.cancelled,
        reused=summary.reused,
        gpu_seconds=summary.gpu_seconds,
        dollars=summary.dollars,
    )
    return RunSnapshot(row.id, row, counts)
