"""The objects of a run in the state bucket: read and write them, line by line (`cosmos_batch.contract.runs`)."""

import json
from collections.abc import Iterable, Iterator
from typing import TypeVar

from cosmos_batch.contract.base import Model
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.run_keys import ERRORS, RunKeys
from cosmos_batch.contract.runs import ItemEstimate, PlannedItem, ResultLine, RunClaim, RunItem, RunRequest, ShardRef
from cosmos_batch.state import write_once
from lambdas.clients import client

JSON, LINES = "application/json", "application/x-ndjson"

Line = TypeVar("Line", bound=Model)


class RunObjects:
    """The objects of one run."""

    def __init__(self, bucket: str, run: str) -> None:
        self.bucket = bucket
        self.keys = RunKeys(run)

    def request(self) -> RunRequest:
        """Return the request of the run. Raises Failure (InvalidInput) where the run has no such object."""
        s3 = client("s3")
        try:
            body = s3.get_object(Bucket=self.bucket, Key=self.keys.request)["Body"].read()
        except s3.exceptions.NoSuchKey as missing:
            raise Failure(
                "InvalidInput",
                f"There is no run {self.keys.run!r}: s3://{self.bucket}/{self.keys.request} does not exist.",
                "Start one with `cosmos-batch runs start`, or name a prefix: "
                '{"run": {"prefix": "s3://my-bucket/folder/", "prompt": "What happens?"}}',
            ) from missing
        return RunRequest.model_validate_json(body)

    def write_request(self, request: RunRequest) -> None:
        self._put(self.keys.request, request.model_dump_json(), JSON)

    def estimate(self) -> ItemEstimate:
        """Return the GPU time that the run's plan expects of an item; empty where it was started without a plan."""
        s3 = client("s3")
        try:
            body = s3.get_object(Bucket=self.bucket, Key=self.keys.estimate)["Body"].read()
        except s3.exceptions.ClientError as error:
            # S3 tells whoever may not list the bucket that access is denied, also where there is no such object.
            if error.response["Error"]["Code"] not in ("NoSuchKey", "AccessDenied"):
                raise
            return ItemEstimate()
        return ItemEstimate.model_validate_json(body)

    def claim(self, digest: str) -> bool:
        """Claim the run's name for a start. Returns whether it has the name, now or since an earlier call."""
        claim = write_once(
            client("s3"), self.bucket, self.keys.claim, RunClaim(digest=digest).model_dump_json().encode()
        )
        return RunClaim.model_validate_json(claim).digest == digest

    def write_shards(self, shards: Iterable[ShardRef]) -> None:
        """Write the list of all shards, which says that all of their objects are there, unless it is written."""
        write_once(client("s3"), self.bucket, self.keys.shards, _json_list(shards).encode())

    def write_shards_of(self, pipeline: str, shards: Iterable[ShardRef]) -> None:
        """Write the list of the shards of one of several pipelines."""
        self._put(self.keys.shards_of(pipeline), _json_list(shards), JSON)

    def shards(self) -> list[ShardRef]:
        """Return all shards, of which a million items have some thousands.

        Raises Failure (InvalidInput) where the list is not written: the run would end at once, without any item.
        """
        shards = self.written_shards()
        if not shards:
            raise Failure(
                "InvalidInput",
                f"The run {self.keys.run!r} has no items: s3://{self.bucket}/{self.keys.shards} does not list any.",
                "Its start has died before it wrote that list, or somebody has deleted it. Start a new run over the "
                "same files: what was answered costs nothing again.",
            )
        return shards

    def written_shards(self) -> list[ShardRef]:
        """Return all shards; an empty list where their list, which is written last, does not exist yet."""
        s3 = client("s3")
        try:
            body = s3.get_object(Bucket=self.bucket, Key=self.keys.shards)["Body"].read()
        except s3.exceptions.NoSuchKey:
            return []
        return [ShardRef.model_validate(shard) for shard in json.loads(body)]

    def write_shard(self, shard: str, lines: bytes) -> bool:
        """Write the items of a shard, as `planning.runs.shards` yields them, unless others are written there.

        Returns whether these items are those of the shard.
        """
        return write_once(client("s3"), self.bucket, self.keys.shard(shard), lines) == lines

    def items(self, shard: str) -> Iterator[RunItem]:
        """Yield the items of a shard."""
        return self._lines(self.keys.shard(shard), RunItem)

    def written_items(self, shard: str) -> list[RunItem]:
        """Return the items of a shard; none where the shard is not written."""
        try:
            return list(self.items(shard))
        except client("s3").exceptions.NoSuchKey:
            return []

    def planned(self, execution: str, shard: str) -> Iterator[PlannedItem] | None:
        """Yield what an execution made of a shard's items; None where it has not planned them."""
        s3 = client("s3")
        try:
            return self._lines(self.keys.planned(execution, shard), PlannedItem)
        except s3.exceptions.NoSuchKey:
            return None

    def errors(self, shard: str) -> Iterator[ResultLine]:
        """Yield the lines of a shard's items that failed, once it has ended."""
        return self._lines(self.keys.lines(ERRORS, shard), ResultLine)

    def write_planned(self, execution: str, shard: str, items: Iterable[PlannedItem]) -> None:
        self._put_lines(self.keys.planned(execution, shard), items)

    def write_results(self, folder: str, shard: str, lines: list[str]) -> None:
        """Write lines of JSON to `results/` or `errors/`. An empty file replaces what an earlier end wrote."""
        self._put(self.keys.lines(folder, shard), "".join(f"{line}\n" for line in lines), LINES)

    def write_summary(self, text: str) -> None:
        self._put(self.keys.summary, text, JSON)

    def _lines(self, key: str, kind: type[Line]) -> Iterator[Line]:
        body = client("s3").get_object(Bucket=self.bucket, Key=key)["Body"]
        return (kind.model_validate_json(line) for line in body.iter_lines() if line.strip())

    def _put_lines(self, key: str, lines: Iterable[Model]) -> None:
        self._put(key, "".join(f"{line.model_dump_json(exclude_defaults=True)}\n" for line in lines), LINES)

    def _put(self, key: str, text: str | bytes, content_type: str) -> None:
        body = text.encode() if isinstance(text, str) else text
        client("s3").put_object(Bucket=self.bucket, Key=key, Body=body, ContentType=content_type)


def _json_list(shards: Iterable[ShardRef]) -> str:
    lines = ",\n".join(shard.model_dump_json() for shard in shards)
    return f"[{lines}]"
