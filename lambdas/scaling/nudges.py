"""Nudges: messages that make `scale` look at a pipeline.

The nudge queue delays its messages and deduplicates them, so that hundreds of plans within `NUDGE_SECONDS` lead to one
look at their pipeline.
"""

import json
import time
from typing import Any

from cosmos_batch.contract.environment import NUDGE_SECONDS, DeployedCompute
from lambdas.clients import client


def nudge_for_work(queue_url: str, pipeline: str) -> None:
    """Send a nudge for a planned job that the state machine is about to send to the pipeline's queue."""
    _send(queue_url, pipeline, {"pipeline": pipeline})


def nudge_to_look(queue_url: str, pipeline: str) -> None:
    """Send a nudge that makes `scale` look at a pipeline, which may have no new work."""
    _send(queue_url, pipeline, {"pipeline": pipeline, "sweep": True})


def is_about(pipeline: DeployedCompute, body: dict[str, Any]) -> bool:
    """Return whether a message is about a pipeline: a nudge names it, and a Batch event names its job queue."""
    if "detail" in body:
        return bool(body["detail"]["jobQueue"] == pipeline.job_queue)
    return bool(body["pipeline"] == pipeline.id)


def announces_work(body: dict[str, Any]) -> bool:
    """Return whether a message is a nudge for a planned job."""
    return "detail" not in body and not body.get("sweep")


def _send(queue_url: str, pipeline: str, body: dict[str, object]) -> None:
    bucket = int(time.time() / NUDGE_SECONDS)
    # The two kinds have deduplication ids of their own: else a nudge to look could suppress one for work.
    kind = "look" if body.get("sweep") else "work"
    client("sqs").send_message(
        QueueUrl=queue_url,
        MessageBody=json.dumps(body),
        MessageGroupId=pipeline,
        MessageDeduplicationId=f"{pipeline}-{kind}-{bucket}",
    )
