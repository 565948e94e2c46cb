"""`feed`: bring the items of one shard of a run to the queue of their pipeline.

A child of the run's Distributed Map calls it with a task token, which is answered when the last item has ended.
"""

from functools import cache
from typing import Any

from cosmos_batch.contract.environment import DeployedPipeline, FeedEnvironment
from lambdas.clients import throttling_named
from lambdas.deployed_pipelines import read_pipelines
from lambdas.runs.feed import feed_shard


@cache
def environment() -> FeedEnvironment:
    """Return the function's environment variables."""
    return FeedEnvironment.read()


@cache
def pipelines() -> dict[str, DeployedPipeline]:
    """Return all enabled pipelines by their ids."""
    return {pipeline.queue.id: pipeline for pipeline in read_pipelines(environment().pipeline_parameters)}


@throttling_named()
def handler(event: dict[str, Any], _context: object) -> None:
    """Handle `{"shard": <ShardRef>, "token": "...", "execution": {"id", "name", "startTime"}}`."""
    feed_shard(event, environment(), pipelines)
