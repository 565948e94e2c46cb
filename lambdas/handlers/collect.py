"""`collect`: write how the items of one shard of a run ended to the run's tables."""

from functools import cache
from typing import Any

from cosmos_batch.contract.environment import CollectEnvironment
from lambdas.clients import state_table, throttling_named
from lambdas.reporting.execution_end import error_of
from lambdas.runs.collect import collect_shard


@cache
def environment() -> CollectEnvironment:
    """Return the function's environment variables."""
    return CollectEnvironment.read()


@throttling_named()
def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Handle `{"shard": <ShardRef>}`, with `error` from Step Functions if waiting for the shard failed."""
    shard, fault = event["shard"], event.get("error")
    error = None if fault is None else error_of(fault.get("Error"), fault.get("Cause"))
    table = state_table(environment().state_table)
    collected = collect_shard(shard["run"], shard["shard"], error, table, environment().state_bucket)
    return {"shard": shard["shard"], "collected": collected}
