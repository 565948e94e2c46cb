"""What the workers of a run's pipelines do."""

from collections import Counter
from collections.abc import Iterable

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.worker_failures import find_worker_failure

# The states of workers' rows in words, in the order in which they are told.
_DOING = {
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
    parts = [f"{states[state]} {doing}" for state, doing in _DOING.items() if states[state]]
    if parts:
        count, _, doing = parts[0].partition(" ")
        parts[0] = f"{count} worker{'' if count == '1' else 's'} {doing}"
    return "; ".join([", ".join(parts) or "no worker yet", *failures])
