"""Prepare an execution of a run: list a prefix if a person named one, keep the caller's token, write the run's row."""

from collections.abc import Mapping
from typing import Any

from pydantic import SecretStr

from cosmos_batch.contract.environment import DeployedPipeline, PrepareRunEnvironment
from cosmos_batch.contract.runs import RunPrefix, RunStart, ShardRef
from cosmos_batch.state import Callbacks, ConditionFailed, RunRow, Runs, StillEnding
from lambdas.clients import Throttled, state_table
from lambdas.log import log
from lambdas.planning.plan import Execution, enabled_queue
from lambdas.runs.objects import RunObjects
from lambdas.runs.prefix_run import write_prefix_run
from lambdas.runs.run_input import read_run, run_id_of

# Two shards for each worker keep it busy while the next are fed. With 400 shards of 250 items, SQS holds 100,000
# messages, and its limit of messages in flight is 120,000 (Amazon SQS standard queue quotas).
SHARDS_PER_WORKER, SHARDS_LIMIT = 2, 400


def prepare_run(
    event: dict[str, Any], environment: PrepareRunEnvironment, pipelines: Mapping[str, DeployedPipeline]
) -> dict[str, Any]:
    """Prepare a run, for the first time or again, and return what its maps need.

    Raises
    ------
    Failure
        The run is refused.
    Throttled
        The run was cancelled and is being ended: the state machine calls again, as where AWS throttles.
    """
    execution = Execution.read(event["execution"])
    run = run_id_of(event["request"], execution.name)
    table = state_table(environment.state_table)
    start = read_run(event["request"])
    if start.callback is not None:
        _keep(Callbacks(table), run, start.callback)
    objects = RunObjects(environment.state_bucket, run)
    runs = Runs(table)
    if isinstance(start, RunStart) and start.finish_cancelled:
        try:
            runs.finish_cancelled(run, execution.arn)
        except ConditionFailed:
            log("the run goes on or is finished already", run=run)
        return _prepared(run, objects, [])
    if isinstance(start, RunPrefix):
        write_prefix_run(start, run, objects, environment.asset_buckets, pipelines)
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
            item_gpu_seconds=objects.estimate().gpu_seconds,
        )
    )
    try:
        row = runs.begin(run, execution.arn, start.max_dollars if isinstance(start, RunStart) else None)
    except StillEnding as ending:
        raise Throttled(str(ending)) from ending
    log("run prepared", run=run, shards=len(shards))
    return _prepared(run, objects, [] if row.stops else _maps(objects, shards, pipelines))


def _prepared(run: str, objects: RunObjects, maps: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the input of the next states. Without maps, the state machine goes to the end of the run at once."""
    # An execution that was started before an update of the state machine has one map, which reads the other fields.
    return {
        "run": run,
        "bucket": objects.bucket,
        "key": objects.keys.shards,
        "maxConcurrency": sum(each["maxConcurrency"] for each in maps),
        "pipelines": maps,
    }


def concurrency(pipeline: DeployedPipeline, pipelines: int = 1) -> int:
    """Return how many shards of one of a run's pipelines are fed at the same time: as many as its workers can take."""
    return min(SHARDS_LIMIT // pipelines, SHARDS_PER_WORKER * pipeline.compute.max_workers + SHARDS_PER_WORKER)


def _maps(
    objects: RunObjects, shards: list[ShardRef], pipelines: Mapping[str, DeployedPipeline]
) -> list[dict[str, Any]]:
    """Return the list of shards and the slots of the map of each pipeline, so that a slow one takes no other's slots.

    The lists of several pipelines are written here.
    """
    by_pipeline: dict[str, list[ShardRef]] = {}
    for shard in shards:
        by_pipeline.setdefault(shard.pipeline, []).append(shard)
    slots = {name: concurrency(pipelines[name], len(by_pipeline)) for name in by_pipeline}
    if len(by_pipeline) == 1:
        return [{"key": objects.keys.shards, "maxConcurrency": number} for number in slots.values()]
    for name, own in by_pipeline.items():
        objects.write_shards_of(name, own)
    return [{"key": objects.keys.shards_of(name), "maxConcurrency": number} for name, number in slots.items()]


def _keep(callbacks: Callbacks, run: str, token: SecretStr) -> None:
    if text := token.get_secret_value():
        callbacks.keep(run, text)
