"""Handle the event of one new object: ignore it, wait for its sidecar, or start jobs."""

import json
import random
import re
from typing import Any

from cosmos_batch.contract.environment import UploadEnvironment
from cosmos_batch.contract.metadata import SIDECAR_SUFFIX
from cosmos_batch.contract.s3 import OBJECT_MARKER, S3Location, is_own_output
from cosmos_batch.state import ReservedKeys
from lambdas.clients import client, is_throttling, state_table
from lambdas.intake.metadata import read_metadata
from lambdas.intake.pipeline_choice import choose_pipelines, is_request_file, pipeline_of_request_file
from lambdas.intake.start_job import start_job, start_request_file
from lambdas.log import log
from lambdas.s3_objects import NO_VERSION, Missing, StoredObject, head
from lambdas.sqs_records import Record

GRACE_OVER = "graceIsOver"  # a field of events that have waited for a sidecar already
THROTTLED_SECONDS = (30, 120)  # a throttled event waits a random time between these, so that a burst is spread

# VAMS's own working folders, which VAMS's upload trigger leaves out too.
_WORKING_FOLDER = re.compile(r"^(pipeline|preview|temp-upload|workspace)s?/")


def handle_upload(record: Record, environment: UploadEnvironment) -> None:
    """Handle the event in one SQS record.

    An event for which AWS throttles our calls is sent to the queue again, as a new message with a delay. Left in the
    queue it would be received again and again while a burst lasts, until SQS moves it to the dead letters.
    """
    event = json.loads(record["body"])
    file, version, from_sidecar = file_of_event(event["detail"])
    may_wait = environment.grace_seconds > 0 and not from_sidecar and not event.get(GRACE_OVER)
    try:
        outcome = _start_jobs(event, file, version, may_wait, environment)
    except Exception as error:
        if not is_throttling(error):
            raise
        _send_again(event, random.randint(*THROTTLED_SECONDS), environment)
        outcome = "put off: AWS is too busy"
    log(outcome, bucket=file.bucket, key=file.key, messageId=record["messageId"])


def _start_jobs(
    event: dict[str, Any], location: S3Location, version: str | None, may_wait: bool, environment: UploadEnvironment
) -> str:
    """Start what the file asks for, and return what was done, for the log. The cheapest checks come first.

    `may_wait` says whether a sidecar may still come: it is written beside its file, and often after it.
    """
    if is_no_input_by_name(location.key):
        return "ignored: no input by its name"
    try:
        file = head(location, version)
    except Missing:
        return "ignored: the file is not there any more"
    # This check comes before the one for our own objects: we write no request files, but one that a person has made by
    # copying a generation's document within S3 has that document's metadata.
    if is_request_file(location.key):
        pipeline = pipeline_of_request_file(file, environment.pipelines)
        start_request_file(environment, pipeline, file)
        return f"started: {pipeline}"
    if is_written_by_us(file, environment):
        return "ignored: written by us"
    metadata = read_metadata(file)
    pipelines = choose_pipelines(location.key, metadata, environment.pipelines)
    if not pipelines:
        return "ignored: nothing asks for a job"
    if may_wait and not (metadata.asks_reasoner or metadata.asks_generator or metadata.faults):
        _send_again({**event, GRACE_OVER: True}, environment.grace_seconds, environment)
        return "waiting for a sidecar"
    for pipeline in pipelines:
        start_job(environment, pipeline, file, metadata)
    return f"started: {', '.join(pipelines)}"


def file_of_event(detail: dict[str, Any]) -> tuple[S3Location, str | None, bool]:
    """Return the file that an event is about, its version, and whether the event is that of its sidecar.

    EventBridge does not URL-encode the key, unlike S3's own notifications.
    """
    bucket, key = detail["bucket"]["name"], detail["object"]["key"]
    if key.endswith(SIDECAR_SUFFIX):
        return S3Location(bucket, key.removesuffix(SIDECAR_SUFFIX)), None, True
    version = detail["object"].get("version-id")
    return S3Location(bucket, key), None if version == NO_VERSION else version, False


def is_no_input_by_name(key: str) -> bool:
    """Return whether a key alone shows that the object is no input."""
    name = key.rpartition("/")[2]
    return (
        not name
        or key.endswith(SIDECAR_SUFFIX)  # `key` is a file's, so this is the sidecar of a sidecar
        or (is_own_output(name) and not is_request_file(key))  # a request may be a document's copy
        or _WORKING_FOLDER.match(key) is not None
        or ".previewFile." in name
    )


def is_written_by_us(file: StoredObject, environment: UploadEnvironment) -> bool:
    """Return whether a job wrote this object: its metadata has our marker, or its key is reserved for a job."""
    if OBJECT_MARKER in file.metadata:
        return True
    return ReservedKeys(state_table(environment.state_table)).owner(*file.location) is not None


def _send_again(event: dict[str, Any], seconds: int, environment: UploadEnvironment) -> None:
    """Send an event to the queue as a new message, which SQS delivers after `seconds`."""
    client("sqs").send_message(
        QueueUrl=environment.upload_queue_url, MessageBody=json.dumps(event), DelaySeconds=seconds
    )
