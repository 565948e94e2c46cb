"""Read the present rate of a run, the states of its workers, and what its items wait for."""

import time
from datetime import datetime
from threading import Lock

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.runs.run_snapshot import RunSnapshot
from cosmos_batch.cli.runs.run_watcher import ItemRate
from cosmos_batch.cli.runs.wording import WORKER_STATES
from cosmos_batch.cli.worker_failures import find_worker_failure
from cosmos_batch.console.run_records import Blocker, RunActivity, WorkerLine
from cosmos_batch.contract.counting import counted
from cosmos_batch.state import WorkerRow

_PACES_KEPT = 50  # runs whose rate is measured
_SINCE = {"READY": "modelLoaded", "STARTING": "started"}  # the stage in which a worker's state began


class LiveRuns:
    """Looks at runs that go on, and measures the rate of each from one look to the next."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._paces: dict[str, ItemRate] = {}

    def look(self, deployment: Deployment, state: RunSnapshot) -> RunActivity:
        """Return the activity of a run that has begun and is not over."""
        assert state.row is not None, "it has begun"
        counts, rate = state.counts, self._rate(state)
        workers = [worker for pipeline in state.row.pipelines for worker in _workers(deployment, pipeline)]
        blockers = [blocker for pipeline in state.row.pipelines for blocker in _blockers(deployment, pipeline)]
        left = counts.items - counts.done
        return RunActivity(
            items_per_second=rate,
            seconds_left=left / rate if rate and left else None,
            workers=workers,
            blockers=blockers,
            waits=_waits(state, workers, blockers),
        )

    def _rate(self, state: RunSnapshot) -> float:
        assert state.row is not None, "it has begun"
        with self._lock:
            if state.run not in self._paces:
                while len(self._paces) >= _PACES_KEPT:
                    self._paces.pop(next(iter(self._paces)))
                self._paces[state.run] = ItemRate()
                self._paces[state.run].add(datetime.fromisoformat(state.row.started_at).timestamp(), 0)
            pace = self._paces[state.run]
            pace.add(time.time(), state.counts.done - state.counts.reused)
            return pace.per_second


def _workers(deployment: Deployment, pipeline: str) -> list[WorkerLine]:
    rows = [row for row in deployment.workers(pipeline).list() if row.state != "ENDED"]
    return [
        WorkerLine(
            id=row.worker,
            pipeline=pipeline,
            doing=WORKER_STATES[row.state],
            since=_since(row),
            completed=row.completed,
        )
        for row in rows
    ]


def _blockers(deployment: Deployment, pipeline: str) -> list[Blocker]:
    failure = find_worker_failure(deployment.workers(pipeline))
    if failure is None:
        return []
    error = failure.error
    return [
        Blocker(
            pipeline=pipeline,
            code=error.code,
            message=error.message,
            remedy=error.remedy,
            next_try=failure.next_try,
        )
    ]


def _since(row: WorkerRow) -> str | None:
    return row.stages.get(_SINCE.get(row.state, ""), row.submitted_at)


def _waits(state: RunSnapshot, workers: list[WorkerLine], blockers: list[Blocker]) -> list[str]:
    """Return sentences that say how many items wait, and for what."""
    counts, waits = state.counts, []
    in_flight = counted(counts.in_flight, "item")
    serves = any(worker.doing == WORKER_STATES["READY"] for worker in workers)
    if counts.in_flight and serves:
        waits.append(f"{in_flight} in the queue or with a worker.")
    elif counts.in_flight and workers:
        waits.append(f"{in_flight} in the queue for a worker, which is {workers[0].doing}.")
    elif counts.in_flight:
        waits.append(f"{in_flight} in the queue for a worker{' that can serve' * bool(blockers)}.")
    if counts.waiting:
        until = "once the run is resumed" if state.name.startswith("HELD") else "after those in the queue have ended"
        waits.append(f"{counted(counts.waiting, 'item')} not in the queue yet: {until}.")
    return waits
