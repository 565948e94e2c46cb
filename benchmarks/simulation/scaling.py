"""Simulate how many workers the function `scale` starts for five patterns of arriving jobs, and what they cost.

Usage: `python -m benchmarks.simulation.scaling`, which writes `docs/scaling.svg` and `benchmarks/results/scaling.json`.

The numbers of workers and their pace come from deployed functions (`worker`). What is simulated is what is
around them: the clock, the queue, the start of an instance, the engine.
"""

import argparse
import json
import random
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.simulation.plot import plot
from benchmarks.simulation.worker import (
    COLD_START_SECONDS,
    SWEEP_SECONDS,
    EngineSpeed,
    SimulatedWorker,
    missing_workers,
    with_first_pace,
    with_waiting,
)
from cosmos_batch.catalogue.generation import SIZES
from cosmos_batch.catalogue.hardware import INSTANCE_TYPES
from cosmos_batch.contract.environment import NUDGE_SECONDS, DeployedCompute
from cosmos_batch.contract.settings import WorkerSettings
from cosmos_batch.planning.pace import weight_of_frames
from cosmos_batch.state import PipelineRow

ROOT = Path(__file__).parents[2]
PLOT, RESULTS = ROOT / "docs" / "scaling.svg", ROOT / "benchmarks" / "results" / "scaling.json"

# Measured with vLLM 0.26.0 (`EngineSpeed`). The vLLM that ships takes 0.068 to 0.073 s in a full batch
# (docs/benchmarks.md).
REASONER_ON_H100 = EngineSpeed(places=272, alone=0.84, full=0.0722)
REASONER_ON_L40S = EngineSpeed(places=272, alone=0.84 * 3.88, full=0.0722 * 3.88)
# Its GPU does one job at a time; the second place is for what comes before and after the GPU.
NANO_ON_H100 = EngineSpeed(places=2, alone=0.0, full=0.0066)


@dataclass(frozen=True)
class Pattern:
    """A pattern of arrivals: seconds from the beginning, and weight, of each job."""

    name: str
    engine: EngineSpeed
    compute: DeployedCompute
    instance_type: str
    arrivals: Callable[[], Iterator[tuple[float, float]]]


@dataclass
class Outcome:
    """The workers and the cost that a simulated arrival pattern led to."""

    name: str
    jobs: int
    started: int = 0
    most: int = 0
    dollars: float = 0.0
    finished_at: float = 0.0
    longest_wait: float = 0.0
    workers: list[tuple[float, int, int]] = field(default_factory=list)  # time, running, jobs that wait or are done


class Simulation:
    """A simulation of one pipeline under one pattern. Time passes in ticks; `scale` runs as often as when deployed."""

    def __init__(self, pattern: Pattern, tick: float = 1.0) -> None:
        self.pattern = pattern
        self.tick = tick
        self.now = 0.0
        self.row = PipelineRow()
        self.waiting: deque[tuple[int, float, float]] = deque()  # (job, weight, arrived at)
        self.workers: list[SimulatedWorker] = []
        self.worker_settings = WorkerSettings()
        arrivals = sorted(pattern.arrivals())
        self.arrivals = deque((job, weight, at) for job, (at, weight) in enumerate(arrivals))
        self.outcome = Outcome(pattern.name, jobs=len(arrivals))
        self._look_at: float | None = 0.0

    def run(self) -> Outcome:
        """Simulate until every job is done and every worker has ended."""
        while self.arrivals or self.waiting or self.workers:
            self._arrive()
            for worker in self.workers:
                self._work(worker)
            self._leave()
            if self._is_due():
                self._scale()
            self.now += self.tick
        return self.outcome

    def _arrive(self) -> None:
        while self.arrivals and self.arrivals[0][2] <= self.now:
            job, weight, at = self.arrivals.popleft()
            self.waiting.append((job, weight, at))
            self._count(1, weight)
            self._look_at = self._look_at if self._look_at is not None else self.now + NUDGE_SECONDS

    def _count(self, jobs: int, weight: float) -> None:
        self.row = with_waiting(self.row, jobs, weight)

    def _work(self, worker: SimulatedWorker) -> None:
        if self.now < worker.ready_at:
            return
        worker.advance(self.now)
        while worker.marks and worker.marks[0][0] <= worker.advanced:
            _, weight = worker.end_next()
            self._count(-1, -weight)
            self.outcome.finished_at = self.now
        while self.waiting and worker.has_room:
            job, weight, at = self.waiting.popleft()
            worker.take(job, weight, weight)
            self.outcome.longest_wait = max(self.outcome.longest_wait, self.now - at)
        if worker.marks:
            worker.idle_since = self.now
        self.row = worker.tell(self.row, self.now)

    def _leave(self) -> None:
        for worker in list(self.workers):
            if self.now >= worker.ready_at and self.now - worker.idle_since >= self.worker_settings.idle_seconds:
                self.workers.remove(worker)
                instance = INSTANCE_TYPES[self.pattern.instance_type]
                share = self.pattern.compute.gpus * instance.dollars_per_gpu_second
                self.outcome.dollars += (self.now - worker.started_at) * share
                self._note()

    def _is_due(self) -> bool:
        if self._look_at is not None and self.now >= self._look_at:
            self._look_at = None
            return True
        return self.now % SWEEP_SECONDS < self.tick

    def _scale(self) -> None:
        compute = self.pattern.compute
        self.row = with_first_pace(self.row, compute)
        for _ in range(missing_workers(compute, self.row, self.row.waiting_jobs, self.workers, self.now)):
            self.workers.append(SimulatedWorker.started(self.pattern.engine, self.now, lambda: self.now))
            self.outcome.started += 1
            self.row = self.row.model_copy(update={"cold_start_seconds": COLD_START_SECONDS})
        self.outcome.most = max(self.outcome.most, len(self.workers))
        self._note()

    def _note(self) -> None:
        self.outcome.workers.append((round(self.now, 1), len(self.workers), self.row.waiting_jobs))


def compute_of(pipeline: str, gpu: str, vcpus: int) -> DeployedCompute:
    """Return a pipeline with the default of 192 vCPUs."""
    return DeployedCompute(
        id=pipeline,
        queue_url="https://queue",
        job_queue="queue",
        job_definition="definition",
        max_workers=192 // vcpus,
        vcpus=vcpus,
        max_life_hours=24,
        gpu=gpu,
    )


def steady(every: float, seconds: float) -> Iterator[tuple[float, float]]:
    """Return one job at each interval."""
    return ((number * every, 1.0) for number in range(int(seconds / every)))


def mixed_generations(count: int) -> list[tuple[float, float]]:
    """Return guided videos that arrive at once: half at 256p, a third at 480p, the rest at 720p, of 189 frames and 35
    steps."""
    weights = [
        weight_of_frames(SIZES[tier]["16:9"].area / 1e6, 189, 35, guided=True) for tier in ("256p", "480p", "720p")
    ]
    drawn = random.Random(7).choices(weights, [3, 2, 1], k=count)
    return [(0.0, weight) for weight in drawn]


def patterns(scale: float = 1.0) -> list[Pattern]:
    """Return the five patterns. `scale` is a factor for their numbers of jobs."""
    reasoner = compute_of("cosmos-reason2-2b", "L40S", 12)
    on_h100 = compute_of("cosmos-reason2-2b", "H100", 16)
    nano = compute_of("cosmos3-nano", "H100", 16)
    many, most = int(1000 * scale), int(10_000 * scale)
    return [
        Pattern("one file", REASONER_ON_L40S, reasoner, "g6e.2xlarge", lambda: iter([(0.0, 1.0)])),
        Pattern(f"{many:,} at once", REASONER_ON_L40S, reasoner, "g6e.2xlarge", lambda: iter([(0.0, 1.0)] * many)),
        Pattern(
            "one each second, for two hours",
            REASONER_ON_L40S,
            reasoner,
            "g6e.2xlarge",
            lambda: steady(1.0, 7200 * scale),
        ),
        Pattern(
            f"{int(240 * scale)} generations of mixed sizes",
            NANO_ON_H100,
            nano,
            "p5.4xlarge",
            lambda: iter(mixed_generations(int(240 * scale))),
        ),
        Pattern(
            f"quiet, then {most:,}",
            REASONER_ON_H100,
            on_h100,
            "p5.4xlarge",
            lambda: iter([*steady(60.0, 3600), *[(3600.0, 1.0)] * most]),
        ),
    ]


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation.scaling", description=__doc__)
    return parser.parse_args(arguments)


def main() -> int:
    """Simulate all patterns, print and store the outcomes, and plot the workers."""
    parse(sys.argv[1:])
    outcomes = [Simulation(pattern).run() for pattern in patterns()]
    for one in outcomes:
        print(
            f"{one.name}: {one.started} workers started, {one.most} at once, "
            f"done after {one.finished_at / 60:.0f} min, {one.dollars:.2f} dollars"
        )
    kept = [{name: value for name, value in asdict(one).items() if name != "workers"} for one in outcomes]
    RESULTS.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    PLOT.write_text(plot(outcomes), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
