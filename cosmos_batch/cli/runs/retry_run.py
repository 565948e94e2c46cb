"""Write a run over the items of another run that have failed."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import StillRunning, WrongCall
from cosmos_batch.cli.runs.executions import begin_run, check_is_new
from cosmos_batch.cli.runs.run_claim import StartDigest, claim_run
from cosmos_batch.cli.runs.run_request import new_run_id
from cosmos_batch.cli.runs.run_snapshot import read_run_snapshot
from cosmos_batch.cli.runs.stored_run import StoredRun, stored_run
from cosmos_batch.contract.runs import ResultLine, RunItem, RunRequest, ShardRef
from cosmos_batch.planning.runs.shards import in_any_state, item_line, shard_size


def retry_run(
    deployment: Deployment,
    run: str,
    codes: Iterable[str],
    max_dollars: float | None = None,
    name: str | None = None,
    items: Iterable[str] = (),
) -> tuple[str, int]:
    """Start a new run over what failed in a run, and return its id and the number of its items.

    `codes` (of errors) and `items` (ids) choose among the failed items; without them, all are asked again. The new run
    has the budget `max_dollars` and the id `name`. Raises StillRunning, and WrongCall where no such item has failed.
    """
    state, new = read_run_snapshot(deployment, run), name or new_run_id()
    if not state.over:
        raise StillRunning(f"{run} has not ended.", f"cosmos-batch runs watch {run}")
    check_is_new(deployment, new)
    earlier, codes = stored_run(deployment, run), frozenset(codes)
    count = RetryWriter(earlier, stored_run(deployment, new).run, codes, frozenset(items)).write(max_dollars)
    if not count:
        choice = f"No failed item of {run} matches --code {', '.join(sorted(codes))}."
        raise WrongCall(choice if codes else f"No item of {run} has failed.", f"cosmos-batch runs show {run}")
    begin_run(deployment, new)
    return new, count


class RetryWriter:
    """Writes the objects of a new run, shard by shard, in the memory of one shard for each pipeline."""

    def __init__(
        self, earlier: StoredRun, run: str, codes: frozenset[str], items: frozenset[str] = frozenset()
    ) -> None:
        """Prepare the run with the id `run`, which asks again about failed items of the run `earlier`.

        These are the failed items whose error has one of `codes`, and whose id is one of `items`. An empty set does not
        limit them.
        """
        self._earlier = earlier
        self._new = StoredRun(earlier.s3, earlier.bucket, run)
        self._codes = codes
        self._ids = items
        self._refs: list[ShardRef] = []
        self._shards: Counter[str] = Counter()

    def write(self, max_dollars: float | None) -> int:
        """Write the new run and return the number of its items. Nothing is written where there is none.

        Raises WrongCall where a different start has claimed its name.
        """
        failed, request = self._failed_items(), self._request(max_dollars)
        first = next(failed, None)
        if first is None:
            return 0
        choice = json.dumps([sorted(self._codes), sorted(self._ids)])
        claim_run(self._new, StartDigest().with_request(request, choice))
        waiting: dict[str, list[RunItem]] = {}
        for pipeline, item in chain([first], failed):
            items = waiting.setdefault(pipeline, [])
            items.append(item)
            if len(items) == shard_size(self._shards[pipeline]):
                self._write_shard(pipeline, waiting.pop(pipeline))
        for pipeline, items in waiting.items():
            self._write_shard(pipeline, items)
        self._new.write_plan(self._refs, request, self._earlier.estimate())
        return sum(ref.items for ref in self._refs)

    def _request(self, max_dollars: float | None) -> RunRequest:
        changes = {
            "id": self._new.run,
            "retry_failed": True,
            "max_dollars": max_dollars,
            "deadline": None,  # it may have passed
            "origin": f"what failed in {self._earlier.run}",
        }
        return self._earlier.request().model_copy(update=changes)

    def _failed_items(self) -> Iterator[tuple[str, RunItem]]:
        """Yield the failed items with their pipelines. Their files may have been replaced, so any state is taken."""
        for ref in self._earlier.shards():
            failed = {line.id for line in self._earlier.errors_of(ref.shard) if self._is_wanted(line)}
            if failed:
                for item in self._earlier.items_of(ref.shard):
                    if item.id in failed:
                        yield ref.pipeline, in_any_state(item)

    def _is_wanted(self, line: ResultLine) -> bool:
        has_failed = line.error is not None and (not self._codes or line.error.code in self._codes)
        return has_failed and (not self._ids or line.id in self._ids)

    def _write_shard(self, pipeline: str, items: list[RunItem]) -> None:
        name = f"{len(self._refs):05}"
        self._new.write_shard(name, b"".join(map(item_line, items)))
        self._refs.append(ShardRef(run=self._new.run, shard=name, pipeline=pipeline, items=len(items)))
        self._shards[pipeline] += 1
