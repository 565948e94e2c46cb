"""Tell the states that wait for a shard that all of its items have ended, or that it has to wait for a person."""

import json
from collections.abc import Iterable

from cosmos_batch.state import JobRow, Jobs, Runs, ShardRow, count_item
from lambdas.step_functions import send_success


def answer_shards(shards: Iterable[ShardRow], runs: Runs) -> None:
    """Answer the tokens of complete shards. It is no error if they were answered before."""
    for shard in shards:
        for token in sorted(runs.shards.tokens(shard)):
            send_success(f"{shard.run}/{shard.shard}", token, json.dumps({"run": shard.run, "shard": shard.shard}))


def count_and_answer(row: JobRow | None, runs: Runs) -> None:
    """Count a job that has ended in the shards whose items wait for it, and answer those that are complete."""
    if row is not None:
        answer_shards(count_item(row, runs), runs)


def park_shard(run: str, shard: str, runs: Runs, jobs: Jobs) -> None:
    """Answer the states that wait for a shard in flight, so that nobody waits until its run goes on.

    Items that have ended stay counted. If the shard is parked already, the steps that an interrupted call left are
    done.
    """
    parked = runs.shards.park(run, shard)
    if parked is not None:
        jobs.count_waiting(parked.pipeline, -parked.jobs, -parked.weight)
        finish_parking(parked, runs)
        return
    row = runs.shards.get(run, shard)
    if row is not None and row.is_half_parked:
        finish_parking(row, runs)


def finish_parking(row: ShardRow, runs: Runs) -> None:
    """Free the reservation of a parked shard, and answer and forget its tokens. It can be repeated."""
    runs.settle_parked(row)
    answer_shards([row], runs)
    runs.shards.forget_tokens(row)
