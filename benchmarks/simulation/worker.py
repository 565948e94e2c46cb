"""A simulated worker, which does all jobs in hand at the same time, and what `scale` decides about such workers.

How its pace is measured and reported, and how many workers are wanted, are the functions that are deployed.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Self

from cosmos_batch.contract.environment import DeployedCompute
from cosmos_batch.contract.settings import ScalingSettings
from cosmos_batch.planning.pace import narrowed
from cosmos_batch.state import PipelineRow
from cosmos_batch.worker.pace import PaceMeter
from lambdas.scaling.breaker import workers_to_start
from lambdas.scaling.worker_count import STARTS_AT_ONCE, seconds_per_unit, wanted_by_pipeline

SWEEP_SECONDS = 60
SEEN_SECONDS = 30  # how often a worker tells its pace
COLD_START_SECONDS = 420.0  # an instance launch, an image pull, and a load with kept caches
START = datetime(2026, 11, 1, tzinfo=UTC)


@dataclass(frozen=True)
class EngineSpeed:
    """The speed of one worker, for jobs of weight 1.

    With n jobs in flight each takes `alone + n * full` seconds, so that one alone takes `alone + full` and a full batch
    `full` each. Fitted for the reasoner to what vLLM 0.26.0 did on an H100 on 2026-11-21: 0.91 s alone, 13.84 a second
    with 256 in flight. These results are not kept, because that vLLM does not ship any more. Another GPU takes as many
    times as long as the first guesses say.
    """

    places: int
    alone: float
    full: float

    def rate(self, in_flight: int) -> float:
        """Return the units of weight that each job in flight advances in a second."""
        return 1 / (self.alone + in_flight * self.full)


@dataclass(eq=False)
class SimulatedWorker:
    """A worker with jobs in hand, each of which advances at the same rate.

    `advanced` is how far a job is that was in hand from the beginning, and each job ends when that reaches its mark.
    """

    engine: EngineSpeed
    pace: PaceMeter
    started_at: float
    ready_at: float
    touched_at: float
    idle_since: float
    told_at: float = 0.0
    served: int = 0
    advanced: float = 0.0
    marks: list[tuple[float, int, float]] = field(default_factory=list)  # a heap of (mark, job, weight)

    @classmethod
    def started(cls, engine: EngineSpeed, now: float, clock: Callable[[], float]) -> Self:
        """Return a worker that is started now and can take jobs after its cold start."""
        ready_at = now + COLD_START_SECONDS
        return cls(engine, PaceMeter(clock=clock), now, ready_at, touched_at=ready_at, idle_since=ready_at)

    @property
    def has_room(self) -> bool:
        return len(self.marks) < self.engine.places

    def take(self, job: int, units: float, weight: float) -> None:
        """Begin a job that takes `units` of the engine's work, and for which the plan assumes `weight`."""
        heapq.heappush(self.marks, (self.advanced + units, job, weight))
        self.pace.began(job)

    def advance(self, now: float) -> float:
        """Advance the jobs in hand to the present, and return by how many units each has advanced."""
        seconds, self.touched_at = now - self.touched_at, now
        units = seconds * self.engine.rate(len(self.marks)) if self.marks else 0.0
        self.advanced += units
        return units

    @property
    def seconds_to_next_end(self) -> float:
        """Return after how many seconds the next job ends, with those that are in hand."""
        return max(0.0, self.marks[0][0] - self.advanced) / self.engine.rate(len(self.marks))

    def end_next(self) -> tuple[int, float]:
        """End the job that is due next, and return it and its weight."""
        _, job, weight = heapq.heappop(self.marks)
        self.pace.ended(job, weight)
        self.served += 1
        return job, weight

    def give_back(self) -> list[int]:
        """Drop all jobs in hand and return them."""
        jobs = [job for _, job, _ in self.marks]
        self.marks = []
        return jobs

    def tell(self, row: PipelineRow, now: float) -> PipelineRow:
        """Return the pipeline's row after a report, which a worker makes as `WorkerLoop._record_pace` does."""
        measure = self.pace.measure
        if now - self.told_at < SEEN_SECONDS:
            return row
        self.told_at = now
        if measure is None or row.seconds_per_unit is None:
            return row
        pace = narrowed(row.seconds_per_unit, measure.seconds_per_unit, measure.in_flight, self.engine.places)
        return row.model_copy(update={"seconds_per_unit": pace})


def with_first_pace(row: PipelineRow, compute: DeployedCompute) -> PipelineRow:
    """Return the row with the pace that `scale` assumes of a pipeline whose workers have not measured any."""
    return row.model_copy(update={"seconds_per_unit": seconds_per_unit(compute, row)})


def missing_workers(
    compute: DeployedCompute, row: PipelineRow, backlog: int, workers: Sequence[SimulatedWorker], now: float
) -> int:
    """Return how many more workers one invocation of `scale` starts for a backlog of jobs."""
    wanted = wanted_by_pipeline(compute, row, backlog, len(workers), ScalingSettings().target_drain_seconds)
    serving = sum(worker.served > 0 for worker in workers)
    missing = workers_to_start(wanted, len(workers), serving, row, START + timedelta(seconds=now))
    return max(0, min(missing, compute.max_workers - len(workers), STARTS_AT_ONCE))


def with_waiting(row: PipelineRow, jobs: int, weight: float) -> PipelineRow:
    """Return the row with the totals of waiting work changed, as `Jobs.count_waiting` does."""
    return row.model_copy(
        update={"waiting_jobs": row.waiting_jobs + jobs, "waiting_weight": row.waiting_weight + weight}
    )
