"""Answer VAMS for a run over several files, which `finish_run` has summed up (decision 034)."""

from collections.abc import Iterator

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.error_documents import FailedFile
from cosmos_batch.contract.runs import RunSummary
from cosmos_batch.state import Group, Groups, Runs, Table
from lambdas.runs.objects import RunObjects
from lambdas.vams.answers import end_in_group
from lambdas.vams.failed_files import end_of_files


def end_run(summary: RunSummary, error: Error | None, bucket: str, table: Table, role_arn: str | None) -> None:
    """Record the end of a run that VAMS waits for, and answer VAMS; ignore any other run.

    `error` is why some of the run's items have not ended: it is held, was cancelled, or could not go on. VAMS does not
    wait for a held run to be resumed, so the first end of the run is the one that it hears of.
    """
    group = _awaited(summary.id, table)
    if group is None:
        return
    if error is None:
        failed = sorted(_failed_files(summary.id, bucket, Runs(table)), key=lambda failed: failed.file)
        end = end_of_files(summary.id, group.since, group.files, summary.items, failed)
    else:
        end = _error_of_stopped(summary, error, group)
    end_in_group(summary.id, end, table, role_arn)


def is_awaited(run: str, table: Table) -> bool:
    """Return whether VAMS waits for a run, and has had no answer."""
    return _awaited(run, table) is not None


def _awaited(run: str, table: Table) -> Group | None:
    group = Groups(table).of(run)
    return None if group is None or group.answered_at is not None else group


def _failed_files(run: str, bucket: str, runs: Runs) -> Iterator[FailedFile]:
    objects = RunObjects(bucket, run)
    for shard in runs.shards.of_run(run):
        for line in objects.errors(shard.shard) if shard.failed else ():
            if line.error is not None:
                yield FailedFile(file=line.id, job_id=line.job_id or None, error=line.error)


def _error_of_stopped(summary: RunSummary, error: Error, group: Group) -> Error:
    """Return the error of a run with items that have not ended. What is held waits for a person: no retry helps it."""
    where = f" The results of the {summary.succeeded} files that are done lie in {group.files}."
    is_held = summary.state == "HELD"
    return Error(
        code="NoCapacity" if is_held else error.code,
        message=error.message,
        remedy=f"Remove the cause, and start the workflow again.{where if summary.succeeded else ''}",
        retryable=error.retryable and not is_held,
    )
