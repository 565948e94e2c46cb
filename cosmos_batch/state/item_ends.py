"""Count the end of a job in the shards whose items wait for it."""

from cosmos_batch.state.jobs import JobRow
from cosmos_batch.state.runs import ItemEnd, Outcome, Runs, ShardRow, Watcher

_OUTCOMES: dict[str, Outcome] = {"SUCCEEDED": "succeeded", "FAILED": "failed", "CANCELLED": "cancelled"}


def count_item(row: JobRow, runs: Runs) -> list[ShardRow]:
    """Count a job that has ended in each shard that waits for it; return those of which it was the last item.

    It can be repeated: an end counts once. The tokens of the returned shards are to be answered then, again after a
    repetition, for nobody knows whether they were answered before.
    """
    complete = []
    for watcher in sorted(map(Watcher.parse, row.watchers)):
        shard = runs.count(watcher.run, watcher.shard, {watcher.item: end_of(row, watcher.run)})
        if shard is not None and shard.complete and shard.task_tokens:
            complete.append(shard)
    return complete


def end_of(row: JobRow, run: str, reused: bool = False) -> ItemEnd:
    """Return the end of a run's item whose job has ended. Only the run that first asked pays for the job."""
    pays = row.paid_by == run and not reused
    return ItemEnd(
        outcome=_OUTCOMES[row.state],
        gpu_seconds=row.gpu_seconds if pays else 0.0,
        dollars=row.dollars if pays else 0.0,
        reused=reused,
    )
