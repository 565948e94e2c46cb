"""Prepare an execution of a run: list a prefix if a person named one, keep the caller's token, write the run's row."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from pydantic import SecretStr

from cosmos_batch.catalogue.pipelines import pipeline_named
from cosmos_batch.contract.environment import DeployedPipeline, PrepareRunEnvironment
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.runs import RunItem, RunPrefix, RunRequest, RunStart, ShardRef
from cosmos_batch.contract.s3 import S3Location, parse_uri
from cosmos_batch.planning.input_files import refuse_outside
from cosmos_batch.planning.runs.selection import Selection
from cosmos_batch.planning.runs.shards import item_line, shards_of
from cosmos_batch.state import Callbacks, RunRow, Runs
from lambdas.clients import client, state_table
from lambdas.log import log
from lambdas.planning.plan import Execution, enabled_queue
from lambdas.runs.objects import RunObjects
from lambdas.runs.run_input import read_run, run_id_of

# Two shards for each worker keep it busy while the next are fed. With 400 shards of 250 items, SQS holds 100,000
# messages, and its limit of messages in flight is 120,000 (Amazon SQS standard queue quotas).
SHARDS_PER_WORKER, SHARDS_LIMIT = 2, 400
# An item waits nine days at most for its worker (`lambdas/runs/item_planner.py`).
SHARD_TIMEOUT = timedelta(days=10)


def prepare_run(
    event: dict[str, Any], environment: PrepareRunEnvironment, pipelines: Mapping[str, DeployedPipeline]
) -> dict[str, Any]:
    """Prepare a run, for the first time or again, and return what the Distributed Map needs. Raises Failure."""
    execution = Execution.read(event["execution"])
    run = run_id_of(event["request"], execution.name)
    table = state_table(environment.state_table)
    start = read_run(event["request"])
    if start.callback is not None:
        _keep(Callbacks(table), run, start.callback)
    objects = RunObjects(environment.state_bucket, run)
    runs = Runs(table)
    if isinstance(start, RunPrefix) and runs.get(run) is None:
        _list_prefix(start, run, objects, environment, pipelines)
    request = objects.request()
    for pipeline in request.pipelines:
        enabled_queue(pipeline, {name: one.queue for name, one in pipelines.items()})
    shards = objects.shards()
    runs.create(
        RunRow(
            id=run,
            state="STARTING",
            pipelines=request.pipelines,
            items=sum(shard.items for shard in shards),
            shards=len(shards),
            started_at=execution.started_at.isoformat(timespec="milliseconds"),
            max_dollars=request.max_dollars,
            deadline=None if request.deadline is None else request.deadline.isoformat(),
            caller=request.caller,
            origin=request.origin,
        )
    )
    runs.begin(run, execution.arn, start.max_dollars if isinstance(start, RunStart) else None)
    log("run prepared", run=run, shards=len(shards))
    return {
        "run": run,
        "bucket": environment.state_bucket,
        "key": objects.keys.shards,
        "maxConcurrency": concurrency(request.pipelines, pipelines),
    }


def concurrency(names: list[str], pipelines: Mapping[str, DeployedPipeline]) -> int:
    """Return how many shards are fed at the same time: as many as the workers of the pipelines can take."""
    workers = sum(pipelines[name].compute.max_workers for name in names)
    return min(SHARDS_LIMIT, SHARDS_PER_WORKER * workers + SHARDS_PER_WORKER)


def _keep(callbacks: Callbacks, run: str, token: SecretStr) -> None:
    if text := token.get_secret_value():
        callbacks.keep(run, text)


def _list_prefix(
    prefix: RunPrefix,
    run: str,
    objects: RunObjects,
    environment: PrepareRunEnvironment,
    pipelines: Mapping[str, DeployedPipeline],
) -> None:
    """Write the objects of a run over a prefix, as the command line does. The list of shards comes last."""
    root = parse_uri(prefix.prefix)
    refuse_outside("prefix", root, environment.asset_buckets)
    pipeline = prefix.pipeline or _only_reasoner(pipelines)
    request = RunRequest(
        id=run,
        pipelines=[pipeline],
        prompt=prefix.prompt,
        parameters=prefix.parameters,
        output=prefix.output,
        input_root=prefix.prefix,
        max_dollars=prefix.max_dollars,
        origin=prefix.prefix,
    )
    shards: list[ShardRef] = []
    for ref, content in shards_of(map(item_line, _listed(root)), run, request.pipelines):
        objects.write_shard(ref.shard, content)
        shards.append(ref)
    if not shards:
        raise Failure(
            "InvalidInput",
            f"prefix: below {root.uri} there is no file that a run could take.",
            "Name a prefix with pictures or videos; documents of Cosmos Batch are left out.",
        )
    objects.write_request(request)
    objects.write_shards(shards)


def _listed(root: S3Location) -> Iterator[RunItem]:
    selection = Selection()
    pages = client("s3").get_paginator("list_objects_v2").paginate(Bucket=root.bucket, Prefix=root.key)
    for page in pages:
        for entry in page.get("Contents", []):
            key, size = entry["Key"], entry["Size"]
            if selection.why_not(key[len(root.key) :] or key, size) is None:
                uri = S3Location(root.bucket, key).uri
                yield RunItem(id=key, input=uri, etag=entry["ETag"], size=size)


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
