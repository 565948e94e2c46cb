"""Count the end of a job in the shards whose items wait for it."""

from cosmos_batch.state.job_rows import JobEnd, JobRow
from cosmos_batch.state.run_rows import ItemEnd, Outcome, ShardRow, Watcher
from cosmos_batch.state.runs import Runs

_OUTCOMES: dict[str, Outcome] = {"SUCCEEDED": "succeeded", "FAILED": "failed", "CANCELLED": "cancelled"}


def count_item(row: JobRow, runs: Runs) -> list[ShardRow]:
    """Count a job that has ended in each shard that waits for it; return those of which it was the last item.

    It can be repeated: an end counts once. The tokens of the returned shards are to be answered then, again after a
    repetition, for nobody knows whether they were answered before.
    """
    complete = []
    for watcher in sorted(map(Watcher.parse, row.watchers)):
        shard = runs.shards.count(watcher.run, watcher.shard, {watcher.item: end_of(row, watcher)})
        if shard is not None and shard.complete and shard.is_awaited:
            complete.append(shard)
    return complete


def end_of(end: JobEnd, watcher: Watcher) -> ItemEnd:
    """Return the end of a run's item whose job has ended.

    Only the run that first asked pays for the job, and only once if several of its items ask the same.
    """
    reused = watcher.text not in end.watchers
    own = sorted(item for item in map(Watcher.parse, end.watchers) if item.run == watcher.run)
    pays = end.paid_by == watcher.run and own[:1] == [watcher]
    return ItemEnd(
        outcome=_OUTCOMES[end.state],
        gpu_seconds=end.gpu_seconds if pays else 0.0,
        dollars=end.dollars if pays else 0.0,
        reused=reused,
    )
