"""Write the objects of a run over a prefix that a person named without the command line.

The function may die in the middle, and Step Functions may call it again while an earlier call still goes on. So the
first call that writes a shard decides what is in it, and every call goes on behind the last file of what is written.
"""

import hashlib
from collections.abc import Iterator, Mapping
from itertools import count

from cosmos_batch.catalogue.pipelines import pipeline_named
from cosmos_batch.contract.environment import DeployedPipeline
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.runs import RunItem, RunPrefix, RunRequest, ShardRef
from cosmos_batch.contract.s3 import S3Location, parse_uri
from cosmos_batch.planning.input_files import refuse_outside
from cosmos_batch.planning.runs.selection import Selection
from cosmos_batch.planning.runs.shards import item_line, shards_of
from lambdas.clients import client
from lambdas.runs.objects import RunObjects


def write_prefix_run(
    prefix: RunPrefix,
    run: str,
    objects: RunObjects,
    asset_roots: list[str],
    pipelines: Mapping[str, DeployedPipeline],
) -> None:
    """Write the objects of a run over a prefix, as the command line does, unless all of them are written.

    Raises Failure (InvalidInput) where the prefix cannot be run, or where another start has taken the run's name.
    """
    root = parse_uri(prefix.prefix)
    refuse_outside("prefix", root, asset_roots)
    if not objects.claim(_digest_of(prefix)):
        raise _name_was_taken(run)
    if objects.written_shards():
        _refuse_other_run(prefix, run, objects.request())
        return
    pipeline = prefix.pipeline or _only_reasoner(pipelines)
    shards = PrefixShards(root, run, pipeline, objects).write()
    if not shards:
        raise Failure(
            "InvalidInput",
            f"prefix: below {root.uri} there is no file that a run could take.",
            "Name a prefix with pictures or videos; documents of Cosmos Batch are left out.",
        )
    objects.write_request(_request_of(prefix, run, pipeline))
    objects.write_shards(shards)


def _request_of(prefix: RunPrefix, run: str, pipeline: str) -> RunRequest:
    return RunRequest(
        id=run,
        pipelines=[pipeline],
        prompt=prefix.prompt,
        parameters=prefix.parameters,
        output=prefix.output,
        input_root=prefix.prefix,
        max_dollars=prefix.max_dollars,
        origin=prefix.prefix,
    )


def _refuse_other_run(prefix: RunPrefix, run: str, written: RunRequest) -> None:
    """Raise Failure (InvalidInput) where the run that is written asks something else than this start.

    Runs of earlier releases have no claim, so a later start of the same name gets the claim.
    """
    if written != _request_of(prefix, run, prefix.pipeline or written.pipelines[0]):
        raise _name_was_taken(run)


def _name_was_taken(run: str) -> Failure:
    return Failure(
        "InvalidInput",
        f"The name {run} was taken by a start that asks about other files, or asks something else of them.",
        "Start an execution with another name.",
    )


class PrefixShards:
    """Writes the shards of a run over a prefix."""

    def __init__(self, root: S3Location, run: str, pipeline: str, objects: RunObjects) -> None:
        self._root = root
        self._run = run
        self._pipeline = pipeline
        self._objects = objects
        self._refs: list[ShardRef] = []
        self._last_key = ""  # the last key of the last shard that is written

    def write(self) -> list[ShardRef]:
        """Write all shards that are not written, and return all of them."""
        while True:
            self._take_written()
            if self._write_following():
                return self._refs

    def _take_written(self) -> None:
        """Take over the shards that another call has written."""
        for number in count(len(self._refs)):
            items = self._objects.written_items(f"{number:05}")
            if not items:
                return
            ref = ShardRef(run=self._run, shard=f"{number:05}", pipeline=self._pipeline, items=len(items))
            self._take(ref, items[-1])

    def _write_following(self) -> bool:
        """Write the shards of the files behind the last one. Returns False where another call has written one first."""
        lines = map(item_line, self._listed())
        for ref, content in shards_of(lines, self._run, [self._pipeline], first=len(self._refs)):
            if not self._objects.write_shard(ref.shard, content):
                return False
            self._take(ref, RunItem.model_validate_json(content.splitlines()[-1]))
        return True

    def _take(self, ref: ShardRef, last: RunItem) -> None:
        """Add a shard that has been written; `last` is its last item."""
        assert last.input is not None, "each item of a prefix is a file"
        self._refs.append(ref)
        self._last_key = parse_uri(last.input).key

    def _listed(self) -> Iterator[RunItem]:
        """Yield the files behind the last one that is in a shard."""
        root, selection = self._root, Selection()
        behind = {"StartAfter": self._last_key} if self._last_key else {}
        pages = client("s3").get_paginator("list_objects_v2").paginate(Bucket=root.bucket, Prefix=root.key, **behind)
        for page in pages:
            for entry in page.get("Contents", []):
                key, size = entry["Key"], entry["Size"]
                if selection.why_not(key[len(root.key) :] or key, size) is None:
                    uri = S3Location(root.bucket, key).uri
                    yield RunItem(id=key, input=uri, etag=entry["ETag"], size=size)


def _digest_of(prefix: RunPrefix) -> str:
    """Return the digest of what a start over a prefix asks, for the claim of the run's name."""
    return hashlib.sha256(f"prefix {prefix.model_dump_json(exclude_defaults=True)}".encode()).hexdigest()


def _only_reasoner(pipelines: Mapping[str, DeployedPipeline]) -> str:
    """Return the only enabled reasoner. Raises Failure (InvalidInput) if there is none or more than one."""
    reasoners = [name for name in pipelines if (row := pipeline_named(name)) is not None and row.surface == "reasoner"]
    if len(reasoners) == 1:
        return reasoners[0]
    raise Failure(
        "InvalidInput",
        f"pipeline: is missing, and {len(reasoners)} reasoners are enabled.",
        f"Name one of: {', '.join(reasoners or pipelines)}.",
    )
