"""Compute what a run costs, for its budget: what it has spent, and what its items in flight are expected to cost."""

from cosmos_batch.catalogue.hardware import INSTANCE_TYPES
from cosmos_batch.contract.environment import DeployedCompute
from cosmos_batch.planning.pace import first_seconds_per_unit
from cosmos_batch.state import Runs, ShardRow, Workers


def expected_dollars(compute: DeployedCompute, weight: float, workers: Workers) -> float:
    """Return the price of so much work on the pipeline's workers, by their measured pace or a first estimate.

    It is that of the dearest instance type with this GPU, so that a budget is reached too early rather than too late.
    """
    measured = workers.pipeline().seconds_per_unit
    seconds = measured or first_seconds_per_unit(compute.id, compute.gpu, compute.gpus)
    prices = [row.dollars_per_gpu_second for row in INSTANCE_TYPES.values() if row.gpu == compute.gpu]
    return round(weight * seconds * compute.gpus * max(prices, default=0.0), 9)


def dollars_with(shard: ShardRow, runs: Runs) -> float:
    """Return the dollars of a run if a shard is fed: spent in ended shards, expected in those in flight and this one.

    Of shards that are being fed at this moment, those with a lower number count: of several that reach the budget
    together, the first ones are fed.
    """
    return sum(
        row.dollars if row.state in ("ENDED", "SKIPPED") else max(row.dollars, row.expected_dollars)
        for row in runs.shards(shard.run)
        if row.state != "FEEDING" or row.shard <= shard.shard
    )
