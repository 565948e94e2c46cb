"""Send the jobs of a run's items to the queue of their pipeline, and note in the row of each that it was sent."""

import hashlib
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from cosmos_batch.contract.job import ITEM_SCHEMA_VERSION, Job, JobMessage
from cosmos_batch.contract.runs import RunRequest
from cosmos_batch.state import ItemJobs, JobRow
from lambdas.clients import client

THREADS = 16
BATCH, BATCH_BYTES = 10, 200 * 1024  # SQS takes ten messages at once, and 256 KiB (1 MiB since August 2025)
PAUSES = (0.2, 0.4, 0.8, 1.6)  # seconds before the messages of a batch are sent again that SQS has refused


class Unsent(NamedTuple):
    """A job whose message is to be sent, and its row as it was read before."""

    job: Job
    row: JobRow


class Message(NamedTuple):
    """The body of a message, and the row of its job."""

    body: str
    row: JobRow


def send_jobs(queue_url: str, request: RunRequest, unsent: Iterable[Unsent], jobs: ItemJobs) -> None:
    """Send the messages of jobs, each once, and note that. Raises RuntimeError where SQS takes some of them never.

    A fault between the two leaves jobs without a note, and whoever finds one sends its message again.
    """
    each_once = {one.job.job_id: one for one in unsent}.values()
    messages = (Message(_body(one.job, request), one.row) for one in each_once)
    group = message_group(request.id)
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda batch: _send_and_note(queue_url, group, batch, jobs), batches(messages)))


def message_group(run: str) -> str:
    """Return the message group of a run: SQS serves groups fairly, so that a run does not delay other callers."""
    return hashlib.sha256(f"run {run}".encode()).hexdigest()[:32]


def batches(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """Yield the messages in lists, each of which one call of SendMessageBatch accepts."""
    batch: list[Message] = []
    size = 0
    for message in messages:
        length = len(message.body.encode())
        if batch and (len(batch) == BATCH or size + length > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(message)
        size += length
    if batch:
        yield batch


def _body(job: Job, request: RunRequest) -> str:
    message = JobMessage(schema_version=ITEM_SCHEMA_VERSION, run=request.id, table_only=request.table_only, job=job)
    return message.model_dump_json(exclude_defaults=True)


def _send_and_note(queue_url: str, group: str, batch: list[Message], jobs: ItemJobs) -> None:
    _send(queue_url, group, [message.body for message in batch])
    for message in batch:
        jobs.sent(message.row)


def _send(queue_url: str, group: str, bodies: list[str]) -> None:
    """Send messages, and those again that SQS did not take. Raises RuntimeError where it takes some of them never."""
    entries = [{"Id": str(number), "MessageBody": body, "MessageGroupId": group} for number, body in enumerate(bodies)]
    refused = _refused(queue_url, entries)
    for pause in PAUSES:
        if not refused:
            return
        time.sleep(pause)
        entries = [entry for entry in entries if entry["Id"] in refused]
        refused = _refused(queue_url, entries)
    if refused:
        raise RuntimeError(f"SQS did not take {len(refused)} messages: {', '.join(sorted(set(refused.values())))}")


def _refused(queue_url: str, entries: list[dict[str, str]]) -> dict[str, str]:
    """Send messages, and return the error codes of those that SQS did not take, by their ids in the batch."""
    failed = client("sqs").send_message_batch(QueueUrl=queue_url, Entries=entries).get("Failed", [])
    return {one["Id"]: one.get("Code", "unknown") for one in failed}
