"""Feed a shard: plan its items, create their jobs, and send those to the queue that have no answer yet.

A state of the shard's execution waits with a task token until the last item has ended. A shard may be fed again at any
time, after a fault or by another execution: an item that has ended is not counted twice, and its job not done twice.
"""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from cosmos_batch.contract.counting import counted
from cosmos_batch.contract.environment import DeployedPipeline, PlanningEnvironment
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.runs import PlannedItem, RunRequest, ShardRef
from cosmos_batch.planning.pace import weight_of
from cosmos_batch.state import (
    FeedTurns,
    ItemEnd,
    ItemJobs,
    RunFeeding,
    RunRow,
    Runs,
    ShardRow,
    Table,
    Watcher,
    Workers,
    end_of,
)
from lambdas.clients import state_table
from lambdas.log import log
from lambdas.planning.plan import Execution, enabled_queue
from lambdas.runs.budget import expected_dollars
from lambdas.runs.item_messages import THREADS, Unsent, send_jobs
from lambdas.runs.objects import RunObjects
from lambdas.runs.shard_ends import answer_shards, park_shard
from lambdas.runs.shard_plan import plan_shard
from lambdas.scaling.nudges import nudge_for_work
from lambdas.step_functions import call_again, send_success

DeployedPipelines = Callable[[], Mapping[str, DeployedPipeline]]


def feed_shard(event: dict[str, Any], environment: PlanningEnvironment, pipelines: DeployedPipelines) -> None:
    """Feed the shard of `{"shard": <ShardRef>, "token": "...", "execution": {...}}`, unless its run has stopped."""
    ref, token = ShardRef.model_validate(event["shard"]), str(event["token"])
    Feeder(ref, token, Execution.read(event["execution"]), environment, pipelines()).feed()


@dataclass(frozen=True)
class FullJob:
    """A job that may serve no more items. Its message is to be sent if another run's held items left it unsent."""

    unsent: Unsent | None


@dataclass
class Feeder:
    """Feeds one shard once."""

    ref: ShardRef
    token: str
    execution: Execution
    environment: PlanningEnvironment
    pipelines: Mapping[str, DeployedPipeline]

    def __post_init__(self) -> None:
        self._table: Table = state_table(self.environment.state_table)
        self._runs, self._jobs, self._feeding = Runs(self._table), ItemJobs(self._table), RunFeeding(self._table)
        self._objects = RunObjects(self.environment.state_bucket, self.ref.run)

    def feed(self) -> None:
        """Feed the shard, or let its state go on at once where there is nothing to wait for.

        A shard that was begun is fed to its end, or waited for, also while the run is held: its items are in flight.
        """
        rows = self._rows_to_feed()
        if rows is not None:
            seconds = self._take_turn(rows[1])
            if seconds is None:
                self._call_again("Many shards are being fed.")
                return
            if seconds:
                time.sleep(seconds)
                rows = self._rows_to_feed()  # they may have changed meanwhile
        if rows is None:
            self._pass()
            return
        run, earlier = rows
        begun = earlier is not None and earlier.in_flight
        price = self._price_of_an_item(run)
        if not self._reserve(run, earlier, begun, price):
            self._pass()
            return
        row = self._runs.shards.feed(self.ref, self.token, round(self.ref.items * price, 9))
        if row.state == "ENDED":
            self._pass()
        elif not begun and self._has_stopped():
            self._park()
            self._pass()
        elif row.complete:
            answer_shards([row], self._runs)
        else:
            self._send_all(row)

    def _rows_to_feed(self) -> tuple[RunRow, ShardRow | None] | None:
        """Return the rows of the run and of the shard, or None if the shard may not be fed now."""
        run = self._runs.get(self.ref.run)
        assert run is not None, "`prepare_run` writes the row"
        run = self._runs.add_reservations(run)
        shard = self._reopened(run, self._runs.shards.get(self.ref.run, self.ref.shard))
        over = run.stops or (shard is not None and shard.state == "ENDED")
        if over or not self._may_go_on(run, shard is not None and shard.in_flight):
            return None
        return run, shard

    def _reopened(self, run: RunRow, row: ShardRow | None) -> ShardRow | None:
        """Return the shard's row, opened again if its items were cancelled before this execution goes on with them."""
        if row is None or run.stops or not row.is_opened_by(self.execution.name):
            return row
        return self._runs.shards.reopen(row)

    def _may_go_on(self, run: RunRow, begun: bool) -> bool:
        """Return whether the shard may be fed now; if no job of its pipeline can be done, hold the run."""
        if not begun and run.state != "RUNNING":
            return False
        reason = self._reason_to_hold()
        if reason is None or (begun and self.ref.pipeline in self.pipelines):
            return True  # what is in flight is put back by `scale` when it finds that no worker can start
        self._runs.hold(self.ref.run, reason)
        self._park()
        return False

    def _take_turn(self, shard: ShardRow | None) -> float | None:
        """Return the seconds until it is the turn of what is left of the shard; None if that is too long to wait."""
        left = self.ref.items - (shard.done if shard is not None else 0)
        return FeedTurns(self._table).take(left, time.time())

    def _has_stopped(self) -> bool:
        """Return whether the run was cancelled or has failed, perhaps too early for its end to find this shard's row.

        When a run ends, its row is written before the rows of its shards are read. This shard's row is written before
        the run's row is read here. So either the end of the run finds the shard, or the shard finds that it ended.
        """
        run = self._runs.get(self.ref.run)
        return run is None or run.stops

    def _park(self) -> None:
        park_shard(self.ref.run, self.ref.shard, self._runs, self._jobs)

    def _price_of_an_item(self, run: RunRow) -> float:
        fed = self._feeding.get(run.id, self.ref.pipeline)
        compute = self.pipelines[self.ref.pipeline].compute
        return expected_dollars(run, fed, compute, Workers(self._table, self.ref.pipeline))

    def _pass(self) -> None:
        """Answer the task token at once, because the shard has nothing to wait for.

        An earlier call may have died after it reserved the shard's price: what is not in flight has no reservation.
        """
        row = self._runs.shards.get(self.ref.run, self.ref.shard)
        if row is None or row.state == "ENDED":
            self._runs.settle(self.ref.run, self.ref.shard, 0.0)
        elif row.state == "SKIPPED":
            self._runs.settle_parked(row)
        send_success(f"{self.ref.run}/{self.ref.shard}", self.token, '{"fed": false}')

    def _call_again(self, reason: str) -> None:
        """Let the state call this function again after a pause, with another token."""
        call_again(f"{self.ref.run}/{self.ref.shard}", self.token, reason)

    def _reason_to_hold(self) -> str | None:
        """Return why no job of the pipeline can be done now, or None."""
        try:
            enabled_queue(self.ref.pipeline, {name: one.queue for name, one in self.pipelines.items()})
        except Failure as not_enabled:
            return f"{not_enabled.error.message} {not_enabled.error.remedy}"
        breaker = Workers(self._table, self.ref.pipeline).pipeline()
        if not breaker.refuses or breaker.reason is None:
            return None
        return f"No worker of {self.ref.pipeline} can start: {breaker.reason.message} {breaker.reason.remedy}"

    def _reserve(self, run: RunRow, row: ShardRow | None, begun: bool, price_of_an_item: float) -> bool:
        """Reserve the price of what is left of the shard. If the run's budget does not allow it, hold the run."""
        items = self.ref.items - (row.done if row is not None else 0)
        price = round(items * price_of_an_item, 9)
        if self._runs.reserve(self.ref.run, self.ref.shard, price, None if begun else run.max_dollars):
            return True
        now = self._runs.get(self.ref.run)
        charged = price + (now.charged_dollars if now is not None else 0.0)
        reason = (
            f"The budget of ${run.max_dollars:g} would be exceeded: with the next {counted(items, 'item')} it is "
            f"${charged:.4g}."
        )
        self._runs.hold(self.ref.run, reason)
        return False

    def _send_all(self, row: ShardRow) -> None:
        """Bring every item of the shard to its queue or to its end; one that is there already is left as it is."""
        request = self._objects.request()
        queue = self.pipelines[self.ref.pipeline].queue
        planned = plan_shard(self.ref, request, row, self.execution, queue, self.environment)
        ends: dict[int, ItemEnd] = {}
        weight, unsent = 0.0, list[Unsent]()
        items = [item for item in enumerate(planned) if item[0] not in row.ended]
        with ThreadPoolExecutor(THREADS) as pool:
            watched = list(pool.map(lambda one: self._watch(one, request), items))
        for (index, item), outcome in zip(items, watched, strict=True):
            if isinstance(outcome, ItemEnd):
                ends[index] = outcome
            elif item.job is not None:
                weight += weight_of(item.job)
                job = outcome.unsent if isinstance(outcome, FullJob) else outcome
                unsent += [] if job is None else [job]
        send_jobs(queue.queue_url, request, unsent, self._jobs)
        if unsent:
            nudge_for_work(self.environment.nudge_queue_url, self.ref.pipeline)
        if any(isinstance(outcome, FullJob) for outcome in watched):
            self._runs.shards.forget_token(self.ref, self.token)
            self._call_again("So many items ask the same that some must wait until it is answered.")
            return
        self._note_fed(ends, len(items) - len(ends), round(weight, 3))
        log("fed", run=self.ref.run, shard=self.ref.shard, sent=len(unsent), ended=len(ends))

    def _note_fed(self, ends: Mapping[int, ItemEnd], waiting: int, weight: float) -> None:
        """Count the items that have ended, add the others to the waiting work, and answer a complete shard."""
        self._runs.shards.count(self.ref.run, self.ref.shard, ends)
        before = self._runs.shards.get(self.ref.run, self.ref.shard)
        # Before the shard's own row: after a crash, `scale` expects too few further items rather than too many.
        if before is not None and before.state == "FEEDING" and not before.jobs:
            self._feeding.add(self.ref.run, self.ref.pipeline, self.ref.items, waiting)
        row = self._runs.shards.fed(self.ref.run, self.ref.shard, waiting, weight)
        if before is not None and before.state == "FEEDING":
            self._jobs.count_waiting(self.ref.pipeline, waiting, weight)
        if row.state == "ENDED":
            self._pass()
        elif row.complete:
            answer_shards([row], self._runs)

    def _watch(self, indexed: tuple[int, PlannedItem], request: RunRequest) -> ItemEnd | Unsent | FullJob | None:
        """Note that an item waits for its job.

        Returns the item's end if it has one, the job if its message is to be sent, or that the job is full.
        """
        index, item = indexed
        if item.job is None:
            return ItemEnd("failed")
        watcher = Watcher(self.ref.run, self.ref.shard, index)
        outcome, row = self._jobs.watch(item.job, watcher, request.retry_failed)
        end = row.end_for(watcher)
        if outcome == "ended" and end is not None:
            return end_of(end, watcher)
        if outcome == "full":
            return FullJob(None if row.is_sent else Unsent(item.job, row))
        return Unsent(item.job, row) if outcome == "send" else None
