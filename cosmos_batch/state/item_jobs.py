"""The jobs of items of runs: several items may wait for one job, and a job that has ended may serve a later run.

The job of an item is named after what is asked, so that another run that asks the same finds it.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal

from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Result
from cosmos_batch.contract.runs import ITEM_CANCELLED
from cosmos_batch.state.job_rows import FINAL, JobEnd, JobRow
from cosmos_batch.state.jobs import Jobs, job_key, new_row, same_set, sortable_time
from cosmos_batch.state.run_rows import Watcher
from cosmos_batch.state.table import ConditionFailed, now

Watched = Literal["send", "joined", "ended", "full"]
"""The next step for a watched job. It is to be sent to its queue; or it is waited for; or it has ended; or it may serve
no more items, so that this one asks again when it has ended."""

SERVED_ITEMS = 500
"""How many items one answer serves: the next one that comes has the job done again. DynamoDB takes 400 KB of a row and
a unit for each KB that it writes, and a row has up to 77 bytes for each of its items."""

REUSED_FOR = timedelta(days=25)
"""How long an answer serves later runs. Its row and its document expire five days later (`KEEP_SECONDS`, and the
lifecycle of the state bucket), by when the tables of a run that uses it must have been written."""

EARLIER_ENDS, EARLIER_ITEMS = 50, 2000
"""How many earlier ends of a job that is done again and again its row keeps, and for how many items in all, for tables
that are not written yet. The latest end is kept in any case."""

_IN_FLIGHT = {"planned": "PLANNED", "running": "RUNNING", "committed": "COMMITTED"}
# Attributes of earlier attempts, which are removed from the row of a job that is done again.
_FORGOTTEN = (
    *("winner", "result", "openAttempt", "opened", "suspect", "lastError", "waiting", "pauses", "giveBacks"),
    *("interruptions", "revision", "reusedBy", "sentAt"),
)
_COST = ("gpuSeconds", "dollars")


class ItemJobs(Jobs):
    """The rows of all jobs, for items of runs that wait for them (`Watcher`)."""

    def watch(self, job: Job, watcher: Watcher, retry: bool) -> tuple[Watched, JobRow]:
        """Let an item of a run wait for a job, and create the job unless it exists. Returns what the caller has to do.

        The job of another run, or of the same run before, is not done twice: if it is in flight, the item waits for it
        too. If it has succeeded with the wanted commit of the model, the item has its answer. If it has failed, it is
        done again if its error may pass, or if `retry` asks for it; a cancelled one is done again in any case. The end
        of the item itself stays its end, unless it was cancelled. A job that has served `SERVED_ITEMS` items is done
        again for the next one.

        Whoever is told to send the job calls `sent` afterwards. Until then everybody who asks is told to send it: two
        messages of a job do no harm, and none would lose it.

        The row has no weight: a shard counts in the pipeline's totals as a whole.
        """
        created = {**new_row(job), "watchers": {watcher.text}, "paidBy": watcher.run}
        try:
            self._table.put_new(job_key(job.job_id), "job", created)
            return "send", JobRow.model_validate(created)
        except ConditionFailed:
            pass
        while True:
            row = self.get(job.job_id)
            assert row is not None, "the row of a job is kept for a month"
            item_end = row.end_for(watcher)
            if item_end is not None and item_end.state != "CANCELLED":
                return "ended", row
            try:
                if row.state not in FINAL:
                    if row.is_full_for(watcher, SERVED_ITEMS):
                        return "full", row
                    row = self._join(job, watcher, row)
                    return ("joined" if row.is_sent else "send"), row
                if _may_end_otherwise(row, job, watcher, retry) or row.is_full_for(watcher, SERVED_ITEMS):
                    return "send", self._reopen(job, watcher, row)
                return "ended", self._reuse(watcher, row)
            except ConditionFailed:
                continue  # another process has changed the row since it was read

    def _join(self, job: Job, watcher: Watcher, row: JobRow) -> JobRow:
        """Add an item to those that wait for a job in flight, which has until the latest of their deadlines."""
        values: dict[str, object] = {"watchers": {watcher.text}, **_IN_FLIGHT}
        expression, condition = "ADD #watchers :watchers", "#state IN (:planned, :running, :committed)"
        if not row.concerns(watcher):
            values["most"] = SERVED_ITEMS
            condition += " AND (attribute_not_exists(#watchers) OR size(#watchers) < :most)"
        deadline = sortable_time(job.deadline)
        if row.deadline is None or row.deadline < deadline:
            values["deadline"] = deadline
            expression = f"SET #deadline = :deadline {expression}"
            condition += " AND (attribute_not_exists(#deadline) OR #deadline < :deadline)"
        return self._update(job.job_id, expression, values, condition)

    def _reuse(self, watcher: Watcher, row: JobRow) -> JobRow:
        """Note that an item gets the end of a job that had ended before the item asked for it."""
        values: dict[str, object] = {"item": {watcher.text}, "before": row.state, "planned": row.stages["planned"]}
        condition = "#state = :before AND #stages.#planned = :planned"
        if not row.concerns(watcher):
            values["room"] = SERVED_ITEMS - len(row.watchers)
            condition += " AND (attribute_not_exists(#reusedBy) OR size(#reusedBy) < :room)"
        return self._update(row.job_id, "ADD #reusedBy :item", values, condition)

    def _reopen(self, job: Job, watcher: Watcher, ended: JobRow) -> JobRow:
        """Have a job done again for an item. Its earlier end is kept for the items that got that end.

        If a run goes on with what was cancelled, its new end costs what was spent before, too: each item has one end.
        """
        new = {name: value for name, value in new_row(job).items() if name not in ("jobId", "pipeline", "input")}
        earlier = [end.stored() for end in _latest_ends([*ended.earlier, ended])]
        new |= {"paidBy": watcher.run, "watchers": {watcher.text}, "earlier": earlier}
        goes_on = ended.state == "CANCELLED" and ended.paid_by == watcher.run
        forgotten = _FORGOTTEN if goes_on else (*_FORGOTTEN, *_COST)
        expression = (
            f"SET {', '.join(f'#{name} = :{name}' for name in new)} "
            f"REMOVE {', '.join(f'#{name}' for name in forgotten)}"
        )
        values = {**new, "before": ended.state, "then": ended.stages["planned"]}
        condition = f"#state = :before AND #stages.#planned = :then AND {same_set('reusedBy', ended.reused_by, values)}"
        return self._update(job.job_id, expression, values, condition)

    def sent(self, row: JobRow) -> None:
        """Note that the message of an item's job is in its queue, unless the job was planned anew meanwhile."""
        try:
            values: dict[str, object] = {"now": now(), "planned": row.stages["planned"]}
            self._update(row.job_id, "SET #sentAt = :now", values, "#stages.#planned = :planned")
        except ConditionFailed:
            return

    def unsent(self, job_id: str) -> bool:
        """Note that the message of a planned job will be deleted, so that it must be sent again.

        Returns False if the job is not planned: a worker has it, or it has ended.
        """
        try:
            self._update(job_id, "REMOVE #sentAt", {"planned": "PLANNED"}, "#state = :planned")
        except ConditionFailed:
            return False
        return True

    def leave(self, job_id: str, watcher: Watcher) -> bool:
        """Let an item wait no longer for a planned job, which is cancelled if nobody else waits for it.

        Returns False if the item has its end from this job, or will soon have it, because a worker does the job.
        """
        try:
            values: dict[str, object] = {"item": {watcher.text}, "planned": "PLANNED"}
            row: JobRow | None = self._update(job_id, "DELETE #watchers :item", values, "#state = :planned")
        except ConditionFailed:
            row = self.get(job_id)
        if row is None or row.state == "CANCELLED":
            return True
        if row.state == "PLANNED" and not row.watchers:
            self.close(job_id, Result(job_id=job_id, error=ITEM_CANCELLED), cancelled=True, watchers=row.watchers)
        return not row.concerns(watcher)


def _latest_ends(ends: Sequence[JobEnd]) -> list[JobEnd]:
    """Return the latest of a job's ends that belong to items of runs, as many as the job's row has room for."""
    kept: list[JobEnd] = []
    items = 0
    for end in reversed([end for end in ends if end.items]):
        items += end.items
        if kept and (items > EARLIER_ITEMS or len(kept) == EARLIER_ENDS):
            break
        kept.insert(0, end)
    return kept


def _may_end_otherwise(row: JobRow, job: Job, watcher: Watcher, retry: bool) -> bool:
    """Return whether a job that has ended can end otherwise if it is done again, perhaps by another model commit."""
    if row.state == "CANCELLED":
        return True
    if job.invalidate_model and watcher.run not in {end.paid_by for end in (row, *row.earlier)}:
        return True  # that was answered by a copy of the model which this run wants to have no more
    if row.state == "SUCCEEDED":
        if datetime.now(UTC) - datetime.fromisoformat(row.stages["planned"]) >= REUSED_FOR:
            return True
        wanted = job.planned_for.revision if job.planned_for is not None else None
        return wanted is not None and row.revision != wanted
    error = None if row.result is None else row.result.error
    return row.state == "FAILED" and (retry or error is None or error.retryable)
