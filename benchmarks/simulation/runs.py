"""A run of a million clips of 2 s to 10 min on 16, 80 and 400 workers, of which 5 % are lost in an hour: simulated.

The shards (`shards_of`), how many of them are fed at once (`concurrency`), what a run has yet to send
(`jobs_to_come`), how many workers are started and their pace (`worker`) and the plan (`Sample`,
`estimate_pipeline`) are the deployed functions. Copied, in a few lines each, are the totals of waiting work
(`Jobs.count_waiting`), a worker's report of its pace (`WorkerLoop._record_pace`), the order of the calls in `scale`,
and the turns of feeding with the state machine's pauses (`FeedTurns`). Simulated are the clock, the queue, the
instances and the engine.

`million_clips` is the command.
"""

import heapq
import itertools
import random
from collections import defaultdict, deque
from dataclasses import dataclass, field

from benchmarks.simulation.clips import MIXED, ClipLengths, engine_units
from benchmarks.simulation.scaling import REASONER_ON_L40S
from benchmarks.simulation.times import MEASURED, SimulatedTimes
from benchmarks.simulation.worker import (
    COLD_START_SECONDS,
    START,
    SWEEP_SECONDS,
    EngineSpeed,
    SimulatedWorker,
    missing_workers,
    with_first_pace,
    with_waiting,
)
from cosmos_batch.catalogue.hardware import INSTANCE_TYPES
from cosmos_batch.contract.environment import DeployedCompute, DeployedPipeline, DeployedQueue
from cosmos_batch.contract.identity import Identity
from cosmos_batch.contract.settings import WorkerSettings
from cosmos_batch.planning.runs.shards import shards_of
from cosmos_batch.state import FedItems, PipelineRow, RunRow
from cosmos_batch.state.feed_turns import ITEMS_PER_SECOND, LONGEST_WAIT
from lambdas.runs.prepare import concurrency
from lambdas.scaling.unfed_jobs import jobs_to_come

RUN, PIPELINE = "simulated", "cosmos-reason2-2b"
IDENTITY = Identity(model="nvidia/Cosmos-Reason2-2B", engine="auto", configuration="simulated")
QUEUE = DeployedQueue(id=PIPELINE, queue_url="https://queue", identity=IDENTITY)
INSTANCE_TYPE = "g6e.2xlarge"
SPOT_LOSSES_PER_HOUR = 0.05
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 300.0  # before the state machine calls a function again (`run_states._retry`)
RECEIVED_AT_ONCE = 10
NEARLY_ALL = 0.95  # the share of the most workers from which on the run is in its steady state


@dataclass(eq=False)
class SpotWorker(SimulatedWorker):
    """A worker that may be lost. `version` changes with its jobs, and events of earlier versions are ignored."""

    version: int = 0
    gone: bool = False


@dataclass
class TimeUse:
    """The seconds of ready workers, those without any job, and their work in seconds of a full batch."""

    ready: float = 0.0
    idle: float = 0.0
    worked: float = 0.0

    def since(self, before: "TimeUse") -> "TimeUse":
        return TimeUse(self.ready - before.ready, self.idle - before.idle, self.worked - before.worked)


@dataclass
class RunOutcome:
    """The time and cost of a simulated run, and the peaks that are compared with the limits of AWS."""

    name: str
    items: int
    max_workers: int
    started: int = 0
    most: int = 0
    lost: int = 0
    repeated: int = 0
    finished_at: float = 0.0
    dollars: float = 0.0
    steady: TimeUse = field(default_factory=TimeUse)
    whole: TimeUse = field(default_factory=TimeUse)
    peak_in_flight: int = 0
    peak_shards: int = 0
    peak_feeding: int = 0
    peak_fed_per_second: float = 0.0
    feed_calls: int = 0
    peak_starts: int = 0
    peak_ends_per_second: float = 0.0
    workers: list[tuple[float, int, int]] = field(default_factory=list)


class SimulatedTurns:
    """The turns of feeding, as `FeedTurns` gives them."""

    def __init__(self) -> None:
        self._taken_until = 0.0

    def take(self, items: int, now: float) -> float | None:
        """Return how long to wait for the next turn, or None where that would be too long."""
        begins = max(now, self._taken_until)
        if begins - now > LONGEST_WAIT:
            return None
        self._taken_until = begins + items / ITEMS_PER_SECOND
        return begins - now


class RunSimulation:
    """A simulation of one run, event after event."""

    def __init__(
        self,
        items: int,
        max_workers: int,
        seed: int = 1,
        mix: ClipLengths = MIXED,
        times: SimulatedTimes = MEASURED,
    ) -> None:
        self.outcome = RunOutcome(f"{items:,} clips, {max_workers} workers", items, max_workers)
        self._engine: EngineSpeed = REASONER_ON_L40S
        self._compute = compute(max_workers)
        self._units = engine_units(mix.clips(items, seed), seed + 1, times.spread)
        self._times = times
        self._random = random.Random(seed + 2)
        self._shards = shards_of(itertools.repeat(b"", items), RUN, [PIPELINE])
        self._run_row = RunRow(id=RUN, state="RUNNING", pipelines=[PIPELINE], items=items, started_at=START.isoformat())
        self._fed_items = FedItems()
        self._left: list[int] = []
        self._work: dict[int, tuple[int, float]] = {}  # the shard and the units of each item
        self._next_item = 0
        self._waiting: deque[int] = deque()
        self._free: deque[SpotWorker] = deque()
        self._live: list[SpotWorker] = []
        self._events: list[tuple[float, int, str, object]] = []
        self._sequence = 0
        self._row = PipelineRow()
        self._worker_settings = WorkerSettings()
        self._slots = concurrency(DeployedPipeline(queue=QUEUE, compute=self._compute))
        self._in_map = 0
        self._turns = SimulatedTurns()
        self._feeding = 0
        self._fed_in_second: defaultdict[int, float] = defaultdict(float)
        self._sizes: list[int] = []
        self._ended_items = 0
        self._noted: list[tuple[int, TimeUse]] = []
        self._ended_before = 0
        self.now = 0.0

    def run(self) -> RunOutcome:
        """Simulate until every item has ended and every worker has left."""
        for _ in range(self._slots):
            self._feed_next()
        self._at(self.now, "scale", None)
        while self._events:
            self.now, _, kind, what = heapq.heappop(self._events)
            getattr(self, f"_{kind}")(what)
        self.outcome.steady = self._steady()
        self.outcome.peak_fed_per_second = round(max(self._fed_in_second.values()), 3)
        return self.outcome

    def _at(self, time: float, kind: str, what: object) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (time, self._sequence, kind, what))

    # The map: it feeds a shard as soon as one has been collected.
    def _feed_next(self) -> None:
        shard = next(self._shards, None)
        if shard is None:
            return
        size = shard[0].items
        self._left.append(size)
        self._sizes.append(size)
        self._in_map += 1
        self.outcome.peak_shards = max(self.outcome.peak_shards, self._in_map)
        self._at(self.now, "feed", (len(self._left) - 1, 0))

    def _feed(self, what: tuple[int, int]) -> None:
        """Call the function: it waits for its turn and feeds the shard, or is called again after a random pause."""
        shard, earlier_calls = what
        self.outcome.feed_calls += 1
        size = self._sizes[shard]
        wait = self._turns.take(size, self.now)
        if wait is None:
            longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(earlier_calls, 10))
            self._at(self.now + self._random.uniform(0, longest), "feed", (shard, earlier_calls + 1))
            return
        self._feeding += 1
        self.outcome.peak_feeding = max(self.outcome.peak_feeding, self._feeding)
        begins, seconds = self.now + wait, size * self._times.feed
        for second in range(int(begins), int(begins + seconds) + 1):
            overlap = min(second + 1, begins + seconds) - max(second, begins)
            self._fed_in_second[second] += overlap / seconds * size
        self._at(begins + seconds, "fed", (shard, size))

    def _fed(self, what: tuple[int, int]) -> None:
        shard, size = what
        self._feeding -= 1
        for _ in range(size):
            self._work[self._next_item] = (shard, next(self._units))
            self._waiting.append(self._next_item)
            self._next_item += 1
        self.outcome.peak_in_flight = max(self.outcome.peak_in_flight, len(self._work))
        fed = self._fed_items
        self._fed_items = FedItems(items=fed.items + size, needed=fed.needed + size)
        self._count(size)
        self._hand_out()

    def _collected(self, _: object) -> None:
        self._in_map -= 1
        self._feed_next()

    def _count(self, jobs: int) -> None:
        self._row = with_waiting(self._row, jobs, jobs)  # a question has weight 1

    # The workers: they receive while they have places, and do all jobs in hand at the same time.
    def _hand_out(self) -> None:
        while self._waiting and self._free:
            worker = self._free.popleft()
            if worker.gone:
                continue
            self._touch(worker)
            for _ in range(min(RECEIVED_AT_ONCE, len(self._waiting), self._engine.places - len(worker.marks))):
                item = self._waiting.popleft()
                worker.take(item, self._work[item][1], 1.0)
            if worker.has_room:
                self._free.append(worker)
            self._schedule(worker)

    def _touch(self, worker: SpotWorker) -> None:
        """Advance a worker's jobs to the present, and add the time to what all workers have used."""
        seconds, use = self.now - worker.touched_at, self.outcome.whole
        use.ready += seconds
        use.idle += 0.0 if worker.marks else seconds
        use.worked += worker.advance(self.now) * len(worker.marks) * self._engine.full

    def _schedule(self, worker: SpotWorker) -> None:
        worker.version += 1
        if worker.marks:
            self._at(self.now + worker.seconds_to_next_end, "done", (worker, worker.version))

    def _done(self, what: tuple[SpotWorker, int]) -> None:
        worker, version = what
        if worker.gone or worker.version != version:
            return
        self._touch(worker)
        was_full = not worker.has_room
        item, _ = worker.end_next()
        self._end_item(item)
        if not worker.marks:
            self._begin_idling(worker)
        if was_full:
            self._free.append(worker)
        self._schedule(worker)
        self._hand_out()
        self._row = worker.tell(self._row, self.now)

    def _end_item(self, item: int) -> None:
        shard, _ = self._work.pop(item)
        self._count(-1)
        self._ended_items += 1
        self.outcome.finished_at = self.now
        self._left[shard] -= 1
        if not self._left[shard]:
            self._at(self.now + self._sizes[shard] * self._times.collect, "collected", None)

    def _ready(self, worker: SpotWorker) -> None:
        worker.touched_at = self.now
        self._free.append(worker)
        self._begin_idling(worker)
        self._at(self.now + self._random.expovariate(SPOT_LOSSES_PER_HOUR / 3600), "lost", worker)
        self._hand_out()

    def _begin_idling(self, worker: SpotWorker) -> None:
        worker.idle_since = self.now
        self._at(self.now + self._worker_settings.idle_seconds, "idle", (worker, self.now))

    def _idle(self, what: tuple[SpotWorker, float]) -> None:
        worker, since = what
        if not worker.gone and not worker.marks and worker.idle_since == since:
            self._leave(worker)

    def _lost(self, worker: SpotWorker) -> None:
        """Take a Spot instance away. Its worker is told two minutes before, and gives back what it has in hand."""
        if worker.gone:
            return
        self._touch(worker)
        given_back = worker.give_back()
        self._waiting.extendleft(given_back)
        self.outcome.lost += 1
        self.outcome.repeated += len(given_back)
        self._leave(worker)
        self._hand_out()

    def _leave(self, worker: SpotWorker) -> None:
        self._touch(worker)
        worker.gone = True
        self._live.remove(worker)
        dollars = INSTANCE_TYPES[INSTANCE_TYPE].dollars_per_gpu_second
        self.outcome.dollars += (self.now - worker.started_at) * dollars * self._compute.gpus

    # `scale` also runs every minute.
    def _scale(self, _: object) -> None:
        self._note()
        self._row = with_first_pace(self._row, self._compute)
        backlog = len(self._work) and len(self._work) + jobs_to_come(self._run_row, self._fed_items, job_dollars=0.0)
        starts = missing_workers(self._compute, self._row, backlog, self._live, self.now)
        self.outcome.peak_starts = max(self.outcome.peak_starts, starts)
        for _ in range(starts):
            self._start_worker()
        self.outcome.most = max(self.outcome.most, len(self._live))
        if self._work or self._in_map or self._live:
            self._at(self.now + SWEEP_SECONDS, "scale", None)

    def _start_worker(self) -> None:
        worker = SpotWorker.started(self._engine, self.now, lambda: self.now)
        self._live.append(worker)
        self.outcome.started += 1
        self._row = self._row.model_copy(update={"cold_start_seconds": COLD_START_SECONDS})
        self._at(worker.ready_at, "ready", worker)

    def _note(self) -> None:
        """Note a point of the plot, the rate of the last minute, and what the workers have done so far."""
        rate = (self._ended_items - self._ended_before) / SWEEP_SECONDS
        self._ended_before = self._ended_items
        self.outcome.peak_ends_per_second = max(self.outcome.peak_ends_per_second, rate)
        self.outcome.workers.append((self.now, len(self._live), self.outcome.items - self._ended_items))
        self._touch_all()
        ready = sum(worker.ready_at <= self.now for worker in self._live)
        if self._next_item < self.outcome.items or self._waiting:  # else there is nothing left to hand out
            self._noted.append((ready, TimeUse(**vars(self.outcome.whole))))

    def _steady(self) -> TimeUse:
        """Return the workers' use of time between the first and the last minute in which nearly all of them run."""
        most = max(ready for ready, _ in self._noted)
        uses = [use for ready, use in self._noted if ready >= NEARLY_ALL * most]
        return uses[-1].since(uses[0])

    def _touch_all(self) -> None:
        for worker in self._live:
            if worker.ready_at <= self.now:
                self._touch(worker)
                self._schedule(worker)


def compute(max_workers: int) -> DeployedCompute:
    """Return a pipeline with at most `max_workers` workers of one L40S each."""
    return DeployedCompute(
        id=PIPELINE,
        queue_url=QUEUE.queue_url,
        job_queue="queue",
        job_definition="definition",
        max_workers=max_workers,
        vcpus=12,
        max_life_hours=24,
        gpu="L40S",
        instance_types=[INSTANCE_TYPE],
    )
