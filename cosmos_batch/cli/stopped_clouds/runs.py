"""Runs of local clouds that were stopped: their rows, and copies of their objects and of what their items have made."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.runs.executions import cancel_run
from cosmos_batch.cli.runs.stored_run import StoredRun, stored_run
from cosmos_batch.cli.stopped_clouds.objects import KeptObjects
from cosmos_batch.cli.stopped_clouds.records import record_file, write_record
from cosmos_batch.contract.error import Error
from cosmos_batch.contract.run_keys import RunKeys
from cosmos_batch.contract.s3 import S3Location
from cosmos_batch.state import RunRow, Runs, ShardRow, Shards
from cosmos_batch.state.table import now

STOPPED = Error(
    code="Cancelled",
    message="The local cloud was stopped before the run had ended.",
    remedy="Start the run again, in another local cloud.",
)
END_SECONDS = 60.0  # runs that have not ended by then are kept as they are
INPUT_BYTES = 512 << 20  # the first input files of a run are kept up to this size; the others are left out
_POLL_SECONDS = 0.3


@dataclass(frozen=True)
class KeptRuns:
    """The runs that stopped local clouds have left: a folder with a JSON file for each, and the objects of runs."""

    folder: Path
    objects: KeptObjects

    def keep(self, deployment: Deployment) -> int:
        """Copy every run of a deployment that is to be stopped. Returns their number."""
        count = 0
        for row in deployment.runs.list():
            objects = stored_run(deployment, row.id)
            keys = _keys(deployment, row.id)
            written = [S3Location(deployment.state_bucket, key).uri for key in keys]
            s3 = deployment.clients("s3")
            self.objects.keep(s3, written)
            self.objects.keep(s3, chain(_made_by_items(objects), _inputs(objects)), missing_ok=True)
            record = {
                "run": _ended(row).model_dump(mode="json", by_alias=True),
                "shards": [
                    shard.model_dump(mode="json", by_alias=True, exclude={"token_ids", "task_tokens"})
                    for shard in deployment.runs.shards.of_run(row.id)
                ],
                "bucket": deployment.state_bucket,
                "keys": keys,
                "roots": deployment.asset_roots,
            }
            write_record(self.folder, row.id, record)
            count += 1
        return count

    def has(self, run: str) -> bool:
        """Return whether a run was kept."""
        return record_file(self.folder, run).is_file()

    def list(self) -> Iterator[RunRow]:
        """Yield the rows of all kept runs, the latest first."""
        rows = [RunRow.model_validate(json.loads(path.read_bytes())["run"]) for path in self.folder.glob("*.json")]
        yield from sorted(rows, key=lambda row: row.started_at, reverse=True)

    def deployment(self, run: str) -> Deployment:
        """Return a deployment that has this run alone, and no cloud behind it: it can only be read."""
        record = json.loads(record_file(self.folder, run).read_bytes())
        objects = replace(self.objects, listed=tuple(record["keys"]))
        return _KeptDeployment(
            lambda _: objects,
            asset_roots=record.get("roots", []),  # records of earlier releases lack this key
            state_machine_arn="",
            state_table="",
            state_bucket=record["bucket"],
            pipelines=[],
            rows=_KeptRun(record),
        )


def end_runs(deployment: Deployment) -> None:
    """Cancel the runs of a deployment that have not ended, and wait until their answers so far are in tables."""
    active = [row.id for row in deployment.runs.active() if row.ended_at is None]
    for run in active:
        cancel_run(deployment, run, STOPPED)
    deadline = time.monotonic() + END_SECONDS
    while any((row := deployment.runs.get(run)) and row.ended_at is None for run in active):
        if time.monotonic() > deadline:
            return
        time.sleep(_POLL_SECONDS)


class _KeptRun(Runs):
    """The row of one kept run, for what reads runs."""

    def __init__(self, record: dict[str, Any]) -> None:
        self._run = RunRow.model_validate(record["run"])
        self.shards = _KeptShards([ShardRow.model_validate(shard) for shard in record["shards"]])

    def get(self, run: str) -> RunRow | None:
        """Return the run's row, or None for another run."""
        return self._run if run == self._run.id else None


class _KeptShards(Shards):
    """The rows of the shards of one kept run."""

    def __init__(self, rows: list[ShardRow]) -> None:
        self._rows = rows

    def of_run(self, run: str) -> Iterator[ShardRow]:
        """Yield the rows of the run's shards in their order."""
        return (row for row in self._rows if row.run == run)


@dataclass(frozen=True, kw_only=True)
class _KeptDeployment(Deployment):
    """A deployment whose rows of runs were kept."""

    rows: _KeptRun

    @property
    def is_local(self) -> bool:
        return True

    @property
    def runs(self) -> Runs:
        return self.rows


def _keys(deployment: Deployment, run: str) -> list[str]:
    """Return the keys of all objects of a run in the state bucket."""
    paginator = deployment.clients("s3").get_paginator("list_objects_v2")
    pages = paginator.paginate(Bucket=deployment.state_bucket, Prefix=RunKeys(run).prefix)
    return [entry["Key"] for page in pages for entry in page.get("Contents", [])]


def _made_by_items(objects: StoredRun) -> Iterator[str]:
    """Yield the URIs of the documents and files that the items of a run have written."""
    for line in objects.lines():
        written = {output.uri for output in line.outputs} | ({line.document} if line.document else set())
        yield from sorted(written)


def _inputs(objects: StoredRun) -> Iterator[str]:
    """Yield the URIs of a run's input files, each once, until they have INPUT_BYTES together."""
    total, seen = 0, set[str]()
    for item in (item for ref in objects.shards() for item in objects.items_of(ref.shard)):
        if item.input is None or item.size is None or item.input in seen:
            continue
        total += item.size
        if total > INPUT_BYTES:
            return
        seen.add(item.input)
        yield item.input


def _ended(row: RunRow) -> RunRow:
    """Return the row of a run as it is once its cloud was stopped."""
    if row.ended_at is not None:
        return row
    return row.model_copy(update={"state": "CANCELLED", "reason": row.reason or STOPPED.message, "ended_at": now()})
