"""Nudges: a word to `scale` that a pipeline may need workers. The queue is FIFO with the pipeline as the group, so
that one `scale` at a time looks at a pipeline; it is delayed, so that 200 plans within a bucket are one nudge."""

import json
import time

from cosmos_batch.contract.environment import NUDGE_SECONDS
from lambdas.clients import client


def nudge_for_work(queue_url: str, pipeline: str) -> None:
    """A job of this pipeline was planned; it will be in the queue in a moment."""
    _send(queue_url, pipeline, {"pipeline": pipeline})


def nudge_to_look(queue_url: str, pipeline: str) -> None:
    """Look at the pipeline again; nothing is known of new work."""
    _send(queue_url, pipeline, {"pipeline": pipeline, "sweep": True})


def _send(queue_url: str, pipeline: str, body: dict[str, object]) -> None:
    bucket = int(time.time() / NUDGE_SECONDS)
    # The two kinds are deduplicated apart: a mere look must not swallow the news of work.
    kind = "look" if body.get("sweep") else "work"
    client("sqs").send_message(
        QueueUrl=queue_url,
        MessageBody=json.dumps(body),
        MessageGroupId=pipeline,
        MessageDeduplicationId=f"{pipeline}-{kind}-{bucket}",
    )
