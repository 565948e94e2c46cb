"""Runs as lines of the console's list, and what a person can do with each."""

from cosmos_batch.cli.runs.run_snapshot import RunSnapshot
from cosmos_batch.console.run_records import Action, RunLine


def run_line(state: RunSnapshot, starts: bool = False) -> RunLine:
    """Return the line that says how far a run is. A run that `starts` is about to begin, and has no row yet."""
    row, counts = state.row, state.counts
    reason = row.reason if row else None if starts else "Its start was interrupted: resume begins it."
    return RunLine(
        id=state.run,
        state="STARTING" if starts else state.name,
        over=state.over,
        pipelines=row.pipelines if row else [],
        origin=(row.origin if row else None) or "",
        started_at=row.started_at if row else None,
        ended_at=row.ended_at if row else None,
        items=counts.items,
        succeeded=counts.succeeded,
        failed=counts.failed,
        cancelled=counts.cancelled,
        reused=counts.reused,
        in_flight=counts.in_flight,
        waiting=counts.waiting,
        gpu_seconds=counts.gpu_seconds,
        dollars=counts.dollars,
        max_dollars=row.max_dollars if row else None,
        reason=reason,
    )


def actions_of(state: RunSnapshot) -> list[Action]:
    """Return the actions that a person can take on a run in its state."""
    counts = state.counts
    if state.row is None:
        return ["resume"]
    if not state.over:
        return ["cancel"] if state.row.state in ("STARTING", "RUNNING", "HELD") else []
    actions: list[Action] = []
    if state.row.state != "SUCCEEDED":
        actions.append("resume")
    if counts.failed + counts.cancelled:
        actions.append("retry")
    if state.row.state == "HELD":
        actions.append("cancel")
    return actions
