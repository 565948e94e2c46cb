"""What a job's good end is made of, from what its engine said."""

from pathlib import Path

from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Answer, Made
from cosmos_batch.worker.commit import Outcome
from cosmos_batch.worker.documents import compose
from cosmos_batch.worker.outputs import present_making
from cosmos_batch.worker.resident_model import ResidentModel


def present(
    environment: WorkerEnvironment,
    model: ResidentModel,
    job: Job,
    said: Answer | Made,
    workdir: Path,
    timings: dict[str, float],
) -> Outcome:
    """Blocks. `timings` (seconds by phase) are the worker's. Raises Failure where what was made is not as asked for."""
    if isinstance(said, Made):
        return present_making(environment, model, job, said, workdir, timings)
    document = compose(environment, model, job, said, timings)
    return Outcome(document.to_json(), document.timings, document.usage)
