"""The price of the items of a shard, which is reserved from the run's budget before they are sent."""

from cosmos_batch.catalogue.hardware import INSTANCE_TYPES
from cosmos_batch.contract.environment import DeployedCompute
from cosmos_batch.planning.pace import first_seconds_per_unit
from cosmos_batch.state import Workers


def expected_dollars(compute: DeployedCompute, weight: float, workers: Workers) -> float:
    """Return the price of so much work on the pipeline's workers, by their measured pace or a first estimate.

    The price is that of the dearest instance type with this GPU: a budget is reached too early rather than too late.
    """
    measured = workers.pipeline().seconds_per_unit
    seconds = measured or first_seconds_per_unit(compute.id, compute.gpu, compute.gpus)
    prices = [row.dollars_per_gpu_second for row in INSTANCE_TYPES.values() if row.gpu == compute.gpu]
    return round(weight * seconds * compute.gpus * max(prices, default=0.0), 9)
