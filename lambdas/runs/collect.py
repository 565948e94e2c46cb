"""Collect a shard: end what is left of its items, write the lines of the run's tables, and note the shard's end."""

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from cosmos_batch.contract.error import Error, too_late
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Result, Usage
from cosmos_batch.contract.run_keys import ERRORS, RESULTS
from cosmos_batch.contract.runs import ITEM_CANCELLED, TABLE_ONLY, PlannedItem, ResultLine
from cosmos_batch.contract.s3 import parse_uri
from cosmos_batch.state import (
    FINAL,
    ItemEnd,
    JobEnd,
    JobRow,
    Jobs,
    RunFeeding,
    RunRow,
    Runs,
    ShardFacts,
    ShardRow,
    StagedDocuments,
    Table,
    Watcher,
    end_of,
)
from lambdas.clients import client
from lambdas.log import log
from lambdas.runs.duration_histogram import class_of
from lambdas.runs.objects import RunObjects
from lambdas.runs.shard_ends import answer_shards, count_and_answer

THREADS = 16

NOT_ENDED = Error(
    code="Internal",
    message="The item's shard ended before the item did.",
    remedy="Retry what failed; if it happens again, see the log of the run's execution.",
    retryable=True,
)


def collect_shard(
    run: str, shard: str, error: Error | None, table: Table, bucket: str, execution_arn: str | None = None
) -> bool:
    """Write the tables' lines of a shard and note its end. Returns False where there is nothing to collect.

    `error` is why the shard's state could not wait for its items; those that have not ended fail with it. Without one,
    and unless the run was cancelled, a shard with items in flight is left to the execution that waits for it.
    `execution_arn` is the execution whose end collects the shard: where a later one feeds the run, that one will.
    """
    runs = Runs(table)
    row, run_row = runs.shards.get(run, shard), runs.get(run)
    if run_row is None or execution_arn not in (None, run_row.execution_arn):
        return False
    if row is None or (row.state == "SKIPPED" and not row.done):
        return False
    if row.state == "ENDED":
        return True
    if not row.complete and error is None and not run_row.stops:
        return False
    Collector(run_row, row, table, RunObjects(bucket, run)).collect(error)
    return True


class Collector:
    """Collects one shard once. It can be repeated until the shard's end is noted."""

    def __init__(self, run: RunRow, row: ShardRow, table: Table, objects: RunObjects) -> None:
        self._run = run
        self._row = row
        self._runs, self._jobs, self._feeding = Runs(table), Jobs(table), RunFeeding(table)
        self._objects = objects
        self._documents = StagedDocuments(table, client("s3"), objects.bucket)

    def collect(self, error: Error | None) -> None:
        items = self._items(error)
        counted: ShardRow | None = None
        with ThreadPoolExecutor(THREADS) as pool:
            rows = list(pool.map(lambda item: None if item.job is None else self._jobs.get(item.job.job_id), items))
            if not self._row.complete:
                counted = self._end_the_rest(items, rows, error)
            numbered = list(enumerate(zip(items, rows, strict=True)))
            lines = list(pool.map(lambda one: self._line(one[0], *one[1]), numbered))
        good = [line for line in lines if line.error is None]
        bad = [line for line in lines if line.error is not None]
        self._objects.write_results(RESULTS, self._row.shard, [_text(line) for line in good])
        self._objects.write_results(ERRORS, self._row.shard, [_text(line) for line in bad])
        self._end_shard(facts_of(lines), sum(bool(line.gpu_seconds) for line in lines))
        if counted is not None:  # another execution may wait for the shard; one that comes later sees it complete
            answer_shards([counted], self._runs)
        log("collected", run=self._row.run, shard=self._row.shard, succeeded=len(good), failed=len(bad))

    def _end_shard(self, facts: ShardFacts, paid: int) -> None:
        """Note the shard's end, and take it back out of what was counted when it was fed.

        `paid` is the number of jobs that have taken GPU time for this run.
        """
        row = self._row
        if not self._runs.end_shard(row.run, row.shard, facts):
            return
        if row.state != "SKIPPED":
            self._jobs.count_waiting(row.pipeline, -row.jobs, -row.weight)
        needed = row.jobs if row.fed_jobs is None else row.fed_jobs
        if facts.cancelled and row.jobs:  # it is fed and counted again if the run is resumed
            self._feeding.add(row.run, row.pipeline, -row.items, -needed)
        elif paid and not facts.cancelled:
            self._feeding.add_ended(row.run, row.pipeline, paid, facts.gpu_seconds)

    def _items(self, error: Error | None) -> list[PlannedItem]:
        """Return the planned items; if the feeding ended before they were planned, all of them with an error."""
        planned = None if self._row.planned_by is None else self._objects.planned(self._row.planned_by, self._row.shard)
        if planned is not None:
            return list(planned)
        reason = self._reason(error)
        return [PlannedItem(item=item, error=reason) for item in self._objects.items(self._row.shard)]

    def _reason(self, error: Error | None) -> Error:
        """Return why items have not ended, where `error` is why their shard could not be waited for."""
        return ITEM_CANCELLED if self._run.state == "CANCELLED" else error or NOT_ENDED

    def _end_the_rest(
        self, items: list[PlannedItem], rows: list[JobRow | None], error: Error | None
    ) -> ShardRow | None:
        """Count every item that was not counted, and close the job of one that has not ended, unless others wait.

        Returns the shard's row, which is complete then.
        """
        reason = self._reason(error)
        ends: dict[int, ItemEnd] = {}
        for index, row in enumerate(rows):
            if index in self._row.ended:
                continue
            watcher = self._watcher(index)
            if row is not None and row.state not in FINAL and row.concerns(watcher):
                row = rows[index] = self._close(row, reason)
            end = None if row is None else row.end_for(watcher)
            if end is not None:
                ends[index] = end_of(end, watcher)
            else:
                ends[index] = ItemEnd("cancelled" if reason.code == "Cancelled" else "failed")
                items[index] = items[index].model_copy(update={"job": None, "error": items[index].error or reason})
                rows[index] = None
        return self._runs.shards.count(self._row.run, self._row.shard, ends)

    def _watcher(self, index: int) -> Watcher:
        return Watcher(self._row.run, self._row.shard, index)

    def _close(self, row: JobRow, reason: Error) -> JobRow:
        """Close a job unless another run waits for it that has not stopped. Returns the row as it is then."""
        others = {Watcher.parse(watcher).run for watcher in row.watchers} - {self._row.run}
        if any((other := self._runs.get(run)) is not None and not other.stops for run in others):
            return row
        result = Result(job_id=row.job_id, error=reason)
        closed = self._jobs.close(row.job_id, result, reason.code == "Cancelled", row.watchers) or row
        if closed.state in FINAL and others:
            count_and_answer(closed, self._runs)
        return closed

    def _line(self, index: int, item: PlannedItem, row: JobRow | None) -> ResultLine:
        """Return the line of one item, from its job's row and its document."""
        line: dict[str, Any] = {
            "id": item.item.id,
            "job_id": item.job.job_id if item.job is not None else "",
            "pipeline": self._row.pipeline,
            "input": item.item.input,
            "prompt": item.item.prompt,
            "variant": item.item.variant,
        }
        end = None if row is None else self._end_in(row, index)
        if end is None or end.result is None:
            return ResultLine(**line, error=item.error or _why_not_ended(item.job))
        counted = end_of(end, self._watcher(index))
        line |= {
            "seconds": _seconds(end),
            "gpu_seconds": counted.gpu_seconds,
            "dollars": counted.dollars,
            "reused": counted.reused,
        }
        if end.result.error is not None:
            return ResultLine(**line, error=end.result.error)
        return ResultLine(**{**line, **self._answer(item, end, end.result)})

    def _end_in(self, row: JobRow, index: int) -> JobEnd | None:
        """Return the end that an item has in its job's row, or else the last one of the same question.

        An item that has ended may have none there: an older release noted none for it, or its row keeps later ones.
        """
        end = row.end_for(self._watcher(index))
        if end is not None or index not in self._row.ended:
            return end
        return row if row.state in FINAL else next(iter(row.earlier[-1:]), None)

    def _answer(self, item: PlannedItem, end: JobEnd, result: Result) -> dict[str, Any]:
        """Return the fields of a line about the answer, from the document that the winning attempt has kept."""
        assert end.winner is not None, "an answer is that of an attempt"
        document = json.loads(self._documents.read(result.job_id, end.winner))
        answer: dict[str, Any] = {
            "model": document.get("model"),
            "revision": document.get("revision"),
            "prompt": item.item.prompt or document.get("userPrompt"),
            "answer": document.get("result"),
            "reasoning": document.get("reasoning"),
            "data": document.get("data"),
            "notes": document.get("notes", []),
            "usage": None if result.usage is None else Usage.model_validate(result.usage.model_dump()),
        }
        is_kept = parse_uri(end.document).key != TABLE_ONLY and bool(result.outputs)
        if is_kept:
            answer["document"] = result.outputs[0].uri
            answer["outputs"] = result.outputs if len(result.outputs) > 1 else []
        return answer


def facts_of(lines: list[ResultLine]) -> ShardFacts:
    """Return the sums over the lines of a shard, which the summary of the run adds up."""
    errors = Counter(line.error.code for line in lines if line.error is not None)
    seconds = Counter(class_of(line.seconds) for line in lines if line.seconds is not None and not line.reused)
    used = [line.usage for line in lines if line.usage is not None and not line.reused]
    cancelled = errors["Cancelled"]
    return ShardFacts(
        succeeded=len(lines) - errors.total(),
        failed=errors.total() - cancelled,
        cancelled=cancelled,
        reused=sum(line.reused for line in lines),
        gpu_seconds=round(sum(line.gpu_seconds or 0.0 for line in lines), 6),
        dollars=round(sum(line.dollars or 0.0 for line in lines), 9),
        errors={str(code): number for code, number in errors.items()},
        prompt_tokens=sum(usage.prompt_tokens for usage in used),
        completion_tokens=sum(usage.completion_tokens for usage in used),
        seconds=dict(seconds),
    )


def unfinished(run: str, runs: Runs) -> Iterator[ShardRow]:
    """Yield the shards of a run that have not ended, unless none of their items has."""
    return (row for row in runs.shards.of_run(run) if row.state != "ENDED" and (row.state != "SKIPPED" or row.done))


def _why_not_ended(job: Job | None) -> Error:
    if job is not None and job.deadline <= datetime.now(UTC):
        return too_late(job.deadline)
    return NOT_ENDED


def _seconds(row: JobEnd) -> float | None:
    """Return the seconds from a job's start in a worker until it was committed."""
    if "started" not in row.stages or "committed" not in row.stages:
        return None
    since = datetime.fromisoformat(row.stages["committed"]) - datetime.fromisoformat(row.stages["started"])
    return max(0.0, round(since.total_seconds(), 3))


def _text(line: ResultLine) -> str:
    return line.model_dump_json(exclude_none=True)
