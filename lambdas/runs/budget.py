"""The expected price of the jobs of a run, by which its budget is kept."""

from cosmos_batch.catalogue.hardware import INSTANCE_TYPES
from cosmos_batch.contract.environment import DeployedCompute
from cosmos_batch.planning.pace import first_seconds_per_unit, typical_weight
from cosmos_batch.state import FedItems, RunRow, Workers

MEASURED_JOBS = 50  # once this many jobs of a run have ended, they are a better sample than the one of its plan


def expected_dollars(run: RunRow, fed: FedItems, compute: DeployedCompute, workers: Workers) -> float:
    """Return the price of one job of a run on the pipeline's workers.

    The GPU time is what the run's own jobs have taken, or else what its plan expects, which knows the length of its
    files, or else what the pipeline's last jobs took. The price is that of the dearest instance type with this GPU: a
    budget is reached too early rather than too late.
    """
    prices = [row.dollars_per_gpu_second for row in INSTANCE_TYPES.values() if row.gpu == compute.gpu]
    return _gpu_seconds(run, fed, compute, workers) * max(prices, default=0.0)


def _gpu_seconds(run: RunRow, fed: FedItems, compute: DeployedCompute, workers: Workers) -> float:
    if fed.ended_jobs >= MEASURED_JOBS and fed.gpu_seconds:
        return fed.gpu_seconds / fed.ended_jobs
    if compute.id in run.item_gpu_seconds:
        return run.item_gpu_seconds[compute.id]
    measured = workers.pipeline().seconds_per_unit
    seconds = measured or first_seconds_per_unit(compute.id, compute.gpu, compute.gpus)
    return typical_weight(compute.id) * seconds * compute.gpus
