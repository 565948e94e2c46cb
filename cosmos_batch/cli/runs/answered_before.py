"""Find out how much of a run an earlier one has answered: the same question about the same sources.

It is an estimate: a file that was changed since then, and an answer of another commit of the model, count as answered
here, and are asked again by the run. What other runs have answered about some of the files is not known here.
"""

from collections import Counter
from dataclasses import dataclass, field

from pydantic import ValidationError

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.runs.stored_run import StoredRun
from cosmos_batch.contract.runs import RunRequest

_RUNS_LOOKED_AT = 50
# Fields of a request that change no answer.
_OWN = {"id", "max_dollars", "deadline", "caller", "origin", "retry_failed"}


@dataclass(frozen=True)
class AnsweredBefore:
    """The number of items that an earlier run has answered, by pipeline, and its id; None where there was none."""

    run: str | None = None
    items: Counter[str] = field(default_factory=Counter)


def answered_before(deployment: Deployment, request: RunRequest, sweeps: bool) -> AnsweredBefore:
    """Return the earlier run with the most answers to these questions. A sweep is not compared, and has none."""
    best = AnsweredBefore()
    # A part that is cut out of an episode's file is another file, at another place, each time.
    if sweeps or request.origin is None or request.origin.startswith("--episode "):
        return best
    for number, row in enumerate(deployment.runs.list()):
        if number == _RUNS_LOOKED_AT:
            break
        if row.origin != request.origin or not _asks_the_same(deployment, row.id, request):
            continue
        counts: Counter[str] = Counter()
        for shard in deployment.runs.shards.of_run(row.id):
            counts[shard.pipeline] += shard.succeeded
        if counts.total() > best.items.total():
            best = AnsweredBefore(row.id, counts)
    return best


def _asks_the_same(deployment: Deployment, run: str, request: RunRequest) -> bool:
    try:
        earlier = StoredRun(deployment.clients("s3"), deployment.state_bucket, run).request()
    except (CliError, ValidationError):
        return False  # its objects were removed, or are those of another version
    return earlier.model_dump(exclude=_OWN) == request.model_dump(exclude=_OWN)
