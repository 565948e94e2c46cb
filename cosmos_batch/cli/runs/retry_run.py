"""Write a run over the items of another run that have failed."""

from collections.abc import Iterator

from cosmos_batch.cli.runs.stored_run import StoredRun
from cosmos_batch.contract.runs import SHARD_ITEMS, ResultLine, RunItem, RunRequest, ShardRef
from cosmos_batch.planning.runs.shards import item_line


class RetryWriter:
    """Writes the objects of a new run, shard by shard, in the memory of one shard for each pipeline."""

    def __init__(self, earlier: StoredRun, run: str, codes: frozenset[str]) -> None:
        """Ask again, as the run `run`, what failed with these codes in an earlier run; with any if there is none."""
        self._earlier = earlier
        self._new = StoredRun(earlier.s3, earlier.bucket, run)
        self._codes = codes
        self._refs: list[ShardRef] = []

    def write(self, max_dollars: float | None) -> int:
        """Write the new run and return the number of its items. Nothing is written where there is none."""
        waiting: dict[str, list[RunItem]] = {}
        for pipeline, item in self._failed_items():
            items = waiting.setdefault(pipeline, [])
            items.append(item)
            if len(items) == SHARD_ITEMS:
                self._write_shard(pipeline, waiting.pop(pipeline))
        for pipeline, items in waiting.items():
            self._write_shard(pipeline, items)
        if self._refs:
            self._new.write_plan(self._refs, self._request(max_dollars))
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
                        yield ref.pipeline, item.model_copy(update={"etag": None, "size": None})

    def _is_wanted(self, line: ResultLine) -> bool:
        return line.error is not None and (not self._codes or line.error.code in self._codes)

    def _write_shard(self, pipeline: str, items: list[RunItem]) -> None:
        name = f"{len(self._refs):05}"
        self._new.write_shard(name, b"".join(map(item_line, items)))
        self._refs.append(ShardRef(run=self._new.run, shard=name, pipeline=pipeline, items=len(items)))
