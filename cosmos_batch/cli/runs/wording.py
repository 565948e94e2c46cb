"""Put the numbers of a run, and what its workers do, into words."""

from collections import Counter
from collections.abc import Iterable

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.runs.run_snapshot import RunCounts, RunSnapshot
from cosmos_batch.cli.worker_failures import find_worker_failure
from cosmos_batch.contract.counting import counted


def counts_in_words(counts: RunCounts) -> str:
    """Return how far a run is, such as `1,204 of 5,000 done (24 %), 12 failed, 250 in flight, 3,546 waiting`."""
    share = f" ({100 * counts.done // counts.items} %)" if counts.items else ""
    parts = [f"{counts.done:,} of {counts.items:,} done{share}", f"{counts.failed:,} failed"]
    more = {
        "cancelled": counts.cancelled,
        "answered before": counts.reused,
        "in flight": counts.in_flight,
        "waiting": counts.waiting,
    }
    return ", ".join([*parts, *(f"{number:,} {name}" for name, number in more.items() if number)])


def duration_in_words(seconds: float) -> str:
    """Return a duration with its two largest units, such as `1 h 20 min`."""
    minutes = round(seconds / 60)
    if seconds < 100:
        return f"{seconds:.0f} s"
    if minutes < 100:
        return f"{minutes} min"
    hours = round(seconds / 3600)
    return f"{minutes // 60} h {minutes % 60} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def dollars_in_words(dollars: float) -> str:
    """Return a price; one of less than a cent with two digits that say something."""
    return f"${dollars:,.2f}" if dollars >= 0.01 or dollars == 0 else f"${dollars:.2g}"


def cost_in_words(deployment: Deployment, state: RunSnapshot) -> str:
    """Return what a run has cost so far, and its budget. The console's page has the same words in `prices.ts`."""
    counts, row = state.counts, state.row
    budget = f" of a budget of {dollars_in_words(row.max_dollars)}" if row and row.max_dollars else ""
    cost = f"{dollars_in_words(counts.dollars)}{budget} for {counts.gpu_seconds / 3600:.2f} GPU hours"
    return f"no cost on a local cloud (AWS would have charged {cost})" if deployment.is_local else cost


def moment_in_words(time: str | None) -> str:
    """Return an ISO 8601 time in UTC to the second; nothing for None."""
    return "" if time is None else f"{time[:10]} {time[11:19]} UTC"


# The states of workers' rows in words, in the order in which they are told.
WORKER_STATES = {
    "READY": "answering",
    "STARTING": "loading the model",
    "SUBMITTED": "waiting for an instance",
    "DRAINING": "ending",
}


def workers_in_words(deployment: Deployment, pipelines: Iterable[str]) -> str:
    """Return what workers do, such as `2 workers answering, 1 loading the model`, and why none can serve."""
    states: Counter[str] = Counter()
    failures = []
    for pipeline in pipelines:
        workers = deployment.workers(pipeline)
        states.update(row.state for row in workers.list() if row.state != "ENDED")
        if failure := find_worker_failure(workers):
            failures.append(f"{pipeline}: {failure}")
    parts = [f"{states[state]} {doing}" for state, doing in WORKER_STATES.items() if states[state]]
    if parts:
        count, _, doing = parts[0].partition(" ")
        parts[0] = f"{counted(int(count), 'worker')} {doing}"
    return "; ".join([", ".join(parts) or "no worker yet", *failures])
