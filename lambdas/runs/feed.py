"""Feed a shard: plan its items, create their jobs, and send those to the queue that have no answer yet.

A state of the shard's execution waits with a task token until the last item has ended. A shard may be fed again at any
time, after a fault or by another execution: an item that has ended is not counted twice, and its job not done twice.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from cosmos_batch.contract.environment import DeployedPipeline, PlanningEnvironment
from cosmos_batch.contract.job import ITEM_SCHEMA_VERSION, Job, JobMessage
from cosmos_batch.contract.runs import PlannedItem, RunRequest, ShardRef
from cosmos_batch.planning.pace import typical_weight, weight_of
from cosmos_batch.state import ItemEnd, Jobs, ReservedKeys, Revisions, RunRow, Runs, ShardRow, Table, Watcher, Workers
from cosmos_batch.state.item_ends import end_of
from lambdas.clients import client, state_table
from lambdas.log import log
from lambdas.planning.plan import Execution, enabled_queue, identity_of
from lambdas.runs.budget import dollars_with, expected_dollars
from lambdas.runs.item_planner import ItemPlanner
from lambdas.runs.objects import RunObjects
from lambdas.runs.shard_ends import answer_shards
from lambdas.scaling.nudges import nudge_for_work
from lambdas.step_functions import send_success

THREADS = 16
BATCH, BATCH_BYTES = 10, 200 * 1024  # SQS takes ten messages at once, and 256 KiB (1 MiB since August 2025)
SENDS = 5  # of one batch: SQS may refuse some of its messages for a moment

Pipelines = Callable[[], Mapping[str, DeployedPipeline]]


def feed_shard(event: dict[str, Any], environment: PlanningEnvironment, pipelines: Pipelines) -> None:
    """Feed the shard of `{"shard": <ShardRef>, "token": "...", "execution": {...}}`, unless its run has stopped."""
    ref, token = ShardRef.model_validate(event["shard"]), str(event["token"])
    Feeder(ref, token, Execution.read(event["execution"]), environment, pipelines()).feed()


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
        self._runs, self._jobs = Runs(self._table), Jobs(self._table)
        self._objects = RunObjects(self.environment.state_bucket, self.ref.run)

    def feed(self) -> None:
        """Feed the shard, or let its state go on at once where there is nothing to wait for.

        A shard that was begun is fed to its end, or waited for, also while the run is held: its items are in flight.
        """
        run = self._runs.get(self.ref.run)
        assert run is not None, "`prepare_run` writes the row"
        earlier = self._reopened(run, self._runs.shard(self.ref.run, self.ref.shard))
        begun = earlier is not None and earlier.state in ("FEEDING", "RUNNING")
        if run.stops or not (begun or self._may_begin(run)):
            self._pass()
            return
        deployed = self.pipelines[self.ref.pipeline]
        price = expected_dollars(deployed.compute, self._typical_weight, Workers(self._table, self.ref.pipeline))
        row = self._runs.feed(self.ref, self.token, price, self.execution.name)
        if row.state == "FEEDING":
            if not begun and not self._within_budget(row, run.max_dollars):
                self._pass()
                return
            request = self._objects.request()
            row = self._send_all(request, row, self._plan(request, row, earlier.planned_by if earlier else None))
        if row.state == "ENDED":
            self._pass()
        elif row.complete:
            answer_shards([row])

    def _reopened(self, run: RunRow, row: ShardRow | None) -> ShardRow | None:
        """Return the shard's row, opened again if its items were cancelled before this execution goes on with them."""
        ended_before = row is not None and row.state == "ENDED" and row.planned_by != self.execution.name
        if row is None or not ended_before or not row.cancelled or run.stops:
            return row
        return self._runs.reopen(row)

    def _may_begin(self, run: RunRow) -> bool:
        """Return whether a shard may be begun now; if no job of its pipeline can be done, hold the run."""
        if run.state != "RUNNING":
            return False
        reason = self._reason_to_hold()
        if reason is not None:
            self._runs.hold(self.ref.run, reason)
        return reason is None

    @property
    def _typical_weight(self) -> float:
        return self.ref.items * typical_weight(self.ref.pipeline)

    def _pass(self) -> None:
        """Answer the task token at once, because the shard has nothing to wait for."""
        send_success(f"{self.ref.run}/{self.ref.shard}", self.token, '{"fed": false}')

    def _reason_to_hold(self) -> str | None:
        """Return why no job of the pipeline can be done now, or None."""
        enabled_queue(self.ref.pipeline, {name: one.queue for name, one in self.pipelines.items()})
        breaker = Workers(self._table, self.ref.pipeline).pipeline()
        if not breaker.refuses or breaker.reason is None:
            return None
        return f"No worker of {self.ref.pipeline} can start: {breaker.reason.message} {breaker.reason.remedy}"

    def _within_budget(self, row: ShardRow, budget: float | None) -> bool:
        """Return whether the run's budget allows the shard; if it does not, hold the run and skip the shard."""
        if budget is None or (dollars := dollars_with(row, self._runs)) <= budget:
            return True
        reason = f"The budget of ${budget:g} would be exceeded: with the next {row.items} items it is ${dollars:.4g}."
        self._runs.hold(self.ref.run, reason)
        self._runs.skip(self.ref.run, self.ref.shard)
        return False

    def _send_all(self, request: RunRequest, row: ShardRow, planned: list[PlannedItem]) -> ShardRow:
        """Bring every item of the shard to its queue or to its end, and return the shard's row."""
        queue = self.pipelines[self.ref.pipeline].queue
        items = [item for item in enumerate(planned) if item[0] not in row.ended]
        ends: dict[int, ItemEnd] = {}
        waiting: list[Job] = []
        to_send: list[Job] = []
        with ThreadPoolExecutor(THREADS) as pool:
            for (index, item), outcome in zip(
                items, pool.map(lambda one: self._watch(one, request), items), strict=True
            ):
                if isinstance(outcome, ItemEnd):
                    ends[index] = outcome
                    continue
                assert item.job is not None
                waiting.append(item.job)
                if outcome == "send":
                    to_send.append(item.job)
            messages = (_message(job, request) for job in to_send)
            list(pool.map(lambda batch: _send(queue.queue_url, message_group(self.ref.run), batch), batches(messages)))
        self._runs.count(self.ref.run, self.ref.shard, ends)
        weight = round(sum(map(weight_of, waiting)), 3)
        before = self._runs.shard(self.ref.run, self.ref.shard)
        row = self._runs.fed(self.ref.run, self.ref.shard, len(waiting), weight)
        if before is not None and before.state == "FEEDING":
            self._jobs.count_waiting(self.ref.pipeline, len(waiting), weight)
        if to_send:
            nudge_for_work(self.environment.nudge_queue_url, self.ref.pipeline)
        log("fed", run=self.ref.run, shard=self.ref.shard, sent=len(to_send), ended=len(ends))
        return row

    def _plan(self, request: RunRequest, row: ShardRow, earlier: str | None) -> list[PlannedItem]:
        """Return the planned items, as this execution planned them first: another try must not see other files.

        Those that have ended stay as the `earlier` execution planned them.
        """
        planned = self._objects.planned(self.execution.name, self.ref.shard)
        if planned is not None:
            return list(planned)
        queue = self.pipelines[self.ref.pipeline].queue
        identity = identity_of(queue, False, Revisions(self._table, queue.id))
        planner = ItemPlanner(
            request, queue, identity, self.execution, self.environment, self._jobs, ReservedKeys(self._table)
        )
        with ThreadPoolExecutor(THREADS) as pool:
            items = list(pool.map(planner.plan, self._objects.items(self.ref.shard)))
        for index, item in enumerate((earlier and self._objects.planned(earlier, self.ref.shard)) or ()):
            if index in row.ended:
                items[index] = item
        self._objects.write_planned(self.execution.name, self.ref.shard, items)
        return items

    def _watch(self, indexed: tuple[int, PlannedItem], request: RunRequest) -> ItemEnd | str:
        """Let the item wait for its job. Returns its end if it has one, else whether the job is to be sent."""
        index, item = indexed
        if item.job is None:
            return ItemEnd("failed")
        watcher = Watcher(self.ref.run, self.ref.shard, index)
        outcome, row = self._jobs.watch(item.job, watcher, request.retry_failed)
        return end_of(row, self.ref.run, reused=watcher.text not in row.watchers) if outcome == "ended" else outcome


def _message(job: Job, request: RunRequest) -> str:
    message = JobMessage(schema_version=ITEM_SCHEMA_VERSION, run=request.id, table_only=request.table_only, job=job)
    return message.model_dump_json(exclude_defaults=True)


def message_group(run: str) -> str:
    """Return the message group of a run: SQS serves groups fairly, so that a run does not delay other callers."""
    return hashlib.sha256(f"run {run}".encode()).hexdigest()[:32]


def batches(messages: Iterable[str]) -> Iterator[list[str]]:
    """Yield the messages in lists that SQS takes at once."""
    batch: list[str] = []
    size = 0
    for message in messages:
        length = len(message.encode())
        if batch and (len(batch) == BATCH or size + length > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(message)
        size += length
    if batch:
        yield batch


def _send(queue_url: str, group: str, batch: list[str]) -> None:
    """Send messages, and those again that SQS did not take. Raises RuntimeError where it takes some of them never."""
    entries = [{"Id": str(number), "MessageBody": body, "MessageGroupId": group} for number, body in enumerate(batch)]
    failed: list[dict[str, Any]] = []
    for _ in range(SENDS):
        failed = client("sqs").send_message_batch(QueueUrl=queue_url, Entries=entries).get("Failed", [])
        if not failed:
            return
        entries = [entry for entry in entries if entry["Id"] in {one["Id"] for one in failed}]
    raise RuntimeError(f"SQS did not take {len(failed)} messages: {failed[0].get('Code')}")
