"""Read and write the objects of a run in the state bucket: its request, its shards, its lines and its summary."""

import heapq
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import IncompleteReadError, ReadTimeoutError, ResponseStreamingError
from pydantic import TypeAdapter, ValidationError

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError, WrongCall
from cosmos_batch.cli.runs.ordered_threads import in_parallel
from cosmos_batch.contract.error import explain
from cosmos_batch.contract.run_keys import ERRORS, RESULTS, RunKeys
from cosmos_batch.contract.runs import (
    RUN_ID,
    ItemEstimate,
    PlannedItem,
    ResultLine,
    RunClaim,
    RunItem,
    RunRequest,
    RunSummary,
    ShardRef,
)
from cosmos_batch.contract.s3 import S3Location
from cosmos_batch.state import write_once

_BROKEN = (IncompleteReadError, ReadTimeoutError, ResponseStreamingError)
_PAUSES = (1.0, 4.0, 16.0)  # seconds before an object is read again
_READERS = 2  # threads that read objects; each has some objects in memory
_SHARDS = TypeAdapter(list[ShardRef])


@dataclass(frozen=True)
class StoredRun:
    """The objects of one run. Lines are read shard by shard, so that a run of any size takes the same memory."""

    s3: Any
    bucket: str
    run: str

    @property
    def keys(self) -> RunKeys:
        """Return the keys of the run's objects."""
        return RunKeys(self.run)

    @property
    def uri(self) -> str:
        """Return where all objects of the run lie."""
        return S3Location(self.bucket, self.keys.prefix).uri

    def request(self) -> RunRequest:
        """Return the run's request. Raises CliError where there is no such run."""
        text = self._read(self.keys.request)
        if text is None:
            raise no_such_run(self.run)
        return RunRequest.model_validate_json(text)

    def shards(self) -> list[ShardRef]:
        """Return the shards in their order; none before the run is written completely."""
        text = self._read(self.keys.shards)
        return [] if text is None else _SHARDS.validate_json(text)

    def estimate(self) -> ItemEstimate:
        """Return the GPU time that the plan expects of an item; empty where the run was started without a plan."""
        text = self._read(self.keys.estimate)
        return ItemEstimate() if text is None else ItemEstimate.model_validate_json(text)

    def summary(self) -> RunSummary | None:
        """Return the summary, or None while the run goes on."""
        text = self._read(self.keys.summary)
        return None if text is None else RunSummary.model_validate_json(text)

    def lines(self, *folders: str) -> Iterator[ResultLine]:
        """Yield the lines of the shards that have ended, from `results/` and `errors/` or from those folders alone.

        Raises CliError for a line that cannot be read.
        """
        listings = [self._listed(folder) for folder in folders or (RESULTS, ERRORS)]
        keys = heapq.merge(*listings, key=lambda key: key.rpartition("/")[2])
        for key, text in in_parallel(lambda key: (key, self._read(key)), keys, _READERS):
            # An object that a retry has removed since it was listed has no lines any more.
            for number, line in enumerate((text or b"").splitlines(), start=1):
                yield self._parse(line, key, number)

    def errors_of(self, shard: str) -> Iterator[ResultLine]:
        """Yield the lines of the items of one shard that have failed."""
        return self.lines_of(self.keys.lines(ERRORS, shard))

    def lines_of(self, key: str) -> Iterator[ResultLine]:
        """Yield the lines of one object of `results/` or `errors/`; none if it is gone."""
        for number, line in enumerate((self._read(key) or b"").splitlines(), start=1):
            yield self._parse(line, key, number)

    def etags(self, folder: str) -> Iterator[tuple[str, str]]:
        """Yield the key and the ETag of each object of a folder."""
        return ((entry["Key"], entry["ETag"]) for entry in self._entries(folder))

    def items_of(self, shard: str) -> Iterator[RunItem]:
        """Yield the items of one shard, as they were asked."""
        for line in (self._read(self.keys.shard(shard)) or b"").splitlines():
            yield RunItem.model_validate_json(line)

    def planned_items(self, execution: str, shard: str) -> Iterator[PlannedItem]:
        """Yield what an execution made of each item of one shard when it fed that."""
        for line in (self._read(self.keys.planned(execution, shard)) or b"").splitlines():
            yield PlannedItem.model_validate_json(line)

    def claim(self, digest: str) -> str:
        """Claim the run's name for a start, unless it is claimed. Returns the digest of the start that has it."""
        content = RunClaim(digest=digest).model_dump_json().encode()
        claim = write_once(self.s3, self.bucket, self.keys.claim, content)
        return RunClaim.model_validate_json(claim).digest

    def write_shard(self, shard: str, lines: bytes) -> None:
        """Write the items of a shard, one on each line."""
        self._write(self.keys.shard(shard), lines)

    def write_plan(self, shards: Iterable[ShardRef], request: RunRequest, estimate: ItemEstimate) -> None:
        """Write the estimate, then the list of all shards, and the request last: with it, the run is written."""
        self._write(self.keys.estimate, estimate.model_dump_json().encode())
        self._write(self.keys.shards, b"[" + b",\n".join(ref.model_dump_json().encode() for ref in shards) + b"]")
        self._write(self.keys.request, request.model_dump_json(exclude_defaults=True).encode())

    def _write(self, key: str, content: bytes) -> None:
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=content)

    def _parse(self, line: bytes, key: str, number: int) -> ResultLine:
        try:
            return ResultLine.model_validate_json(line)
        except ValidationError as error:
            raise CliError(
                f"Line {number} of {S3Location(self.bucket, key).uri} is no result of a run: {explain(error)}",
                "A newer release may have written it: update this command to the release that is deployed.",
            ) from error

    def _listed(self, folder: str) -> Iterator[str]:
        return (entry["Key"] for entry in self._entries(folder))

    def _entries(self, folder: str) -> Iterator[dict[str, Any]]:
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=self.keys.folder(folder))
        return (entry for page in pages for entry in page.get("Contents", []))

    def _read(self, key: str) -> bytes | None:
        """Return the content of an object, or None where there is none.

        boto3 repeats a call, and not the reading of its answer: an object whose connection breaks is read again.
        """
        for pause in _PAUSES:
            try:
                return self._read_once(key)
            except _BROKEN:
                time.sleep(pause)
        return self._read_once(key)

    def _read_once(self, key: str) -> bytes | None:
        try:
            content: bytes = self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        except self.s3.exceptions.NoSuchKey:
            return None
        return content


def stored_run(deployment: Deployment, run: str) -> StoredRun:
    """Return the objects of a run. Raises WrongCall for what is no name of a run."""
    if not re.fullmatch(RUN_ID, run):
        raise WrongCall(f"{run!r} is no id of a run.", "`cosmos-batch runs list` lists the runs.")
    return StoredRun(deployment.clients("s3"), deployment.state_bucket, run)


def no_such_run(run: str) -> CliError:
    """Return the error of a command that names a run which does not exist here."""
    return CliError(f"There is no run {run} here.", "`cosmos-batch runs list` lists the runs.")
