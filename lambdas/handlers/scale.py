"""`scale`: give each pipeline as many workers as its queue needs, and fail jobs for which no worker can start.

It reads the nudge queue, a FIFO queue whose message group is the pipeline. SQS gives out no message of a group while
another one is being handled, so one `scale` at a time works on a pipeline, and nothing here needs a lock. The queue
holds the nudges of `plan`, Batch's events about workers that ended, and one nudge a minute for each pipeline, which
this function sends itself when EventBridge's schedule calls it. With the same call it reconciles runs.
"""

from functools import cache
from typing import Any

from cosmos_batch.contract.environment import DeployedCompute, ScaleEnvironment
from lambdas.clients import state_table
from lambdas.deployed_pipelines import read_pipelines
from lambdas.runs.reconcile import reconcile_runs
from lambdas.scaling.nudges import nudge_to_look
from lambdas.scaling.scale import scale_pipelines
from lambdas.sqs_records import batch_failures


@cache
def environment() -> ScaleEnvironment:
    """Return the function's environment variables."""
    return ScaleEnvironment.read()


def deployed_pipelines() -> list[DeployedCompute]:
    """Return the Batch resources and limits of each enabled pipeline's workers, smallest model first.

    This is read at each call. A deployment may change nothing of this function but the revision of a job definition in
    the SSM parameter; a process that kept the revision before it would drain the workers that run the new one.
    """
    return [pipeline.compute for pipeline in read_pipelines(environment().pipeline_parameters)]


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Handle a batch of the nudge queue, or the schedule's `{"sweep": true}`."""
    pipelines = deployed_pipelines()
    if event.get("sweep"):
        for pipeline in pipelines:
            nudge_to_look(environment().nudge_queue_url, pipeline.id)
        queues = {pipeline.id: pipeline.queue_url for pipeline in pipelines}
        reconcile_runs(state_table(environment().state_table), environment().state_bucket, queues)
        return {}
    return batch_failures(scale_pipelines(event["Records"], pipelines, environment()))
