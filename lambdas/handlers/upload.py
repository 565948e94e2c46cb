"""`upload`: a file came into a bucket; start what it asks for.

Events come from EventBridge by way of SQS, at least once and in any order. What keeps a run single is its name, which
is made of the pipeline and the exact state of the file: the same event twice, or the file's event and its sidecar's,
come to one execution.

What AWS is too busy for is put off: its event goes into the queue anew. Left there, it would be received again and
again while a burst lasts, and after so many times be taken for one that nobody can read.
"""

import json
import random
import re
from functools import cache
from typing import Any

from cosmos_batch.contract.environment import UploadEnvironment
from cosmos_batch.contract.metadata import SIDECAR_SUFFIX
from cosmos_batch.contract.s3 import OBJECT_MARKER, S3Location
from cosmos_batch.state import ReservedKeys
from lambdas.clients import client, is_throttling, state_table
from lambdas.intake.choosing import chosen_pipelines, is_request_file, requested_pipeline
from lambdas.intake.metadata import read_metadata
from lambdas.intake.runs import start_request_file, start_run
from lambdas.log import log
from lambdas.s3_objects import NO_VERSION, Missing, StoredObject, head
from lambdas.sqs_batches import Record, each_record

GRACE_OVER = "graceIsOver"
PUT_OFF_SECONDS = (30, 120)  # at random between them: a burst must not come back as a burst

_DOCUMENT = re.compile(r"_Cosmos(Reason|Error)_\d{8}-\d{6}\.json$")
# A sidecar document, and what was made beside it.
_MADE = re.compile(r"(_Cosmos3_[a-z0-9-]+_|^cosmos3-[a-z0-9-]+-)\d{8}-\d{6}\.")
# VAMS's own working folders, which its own upload trigger leaves out too.
_WORKING_FOLDER = re.compile(r"^(pipeline|preview|temp-upload|workspace)s?/")


@cache
def environment() -> UploadEnvironment:
    """Of this function."""
    return UploadEnvironment.read()


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """A batch of SQS records, each the EventBridge event of one object."""
    return each_record(event, take, context)


def take(record: Record) -> None:
    """One object's event."""
    event = json.loads(record["body"])
    subject, version, from_sidecar = subject_of(event["detail"])
    waits = must_wait(event, from_sidecar)
    try:
        outcome = act(event, subject, version, waits)
    except Exception as error:
        if not is_throttling(error):
            raise
        send_back(event, random.randint(*PUT_OFF_SECONDS))
        outcome = "put off: AWS is too busy"
    log(outcome, bucket=subject.bucket, key=subject.key, messageId=record["messageId"])


def act(event: dict[str, Any], subject: S3Location, version: str | None, waits: bool) -> str:
    """Do what the event asks for and say what that was. The checks stand in the order of their price."""
    if is_ours_by_name(subject.key):
        return "ignored: no input by its name"
    try:
        file = head(subject, version)
    except Missing:
        return "ignored: the file is not there any more"
    if is_request_file(subject.key):  # we write none, but a copy of a document in S3 has a document's metadata
        pipeline = requested_pipeline(file, environment().pipelines)
        start_request_file(environment(), pipeline, file)
        return f"started: {pipeline}"
    if is_ours(file):
        return "ignored: written by us"
    metadata = read_metadata(file)
    pipelines = chosen_pipelines(subject.key, metadata, environment().pipelines)
    if not pipelines:
        return "ignored: nothing asks for a run"
    if not (metadata.asks or metadata.makes or metadata.faults) and waits:
        send_back({**event, GRACE_OVER: True}, environment().grace_seconds)
        return "waiting for a sidecar"
    for pipeline in pipelines:
        start_run(environment(), pipeline, file, metadata)
    return f"started: {', '.join(pipelines)}"


def subject_of(detail: dict[str, Any]) -> tuple[S3Location, str | None, bool]:
    """The file that an event is about, its version, and whether the event is its sidecar's.

    The key stands in the event as it is: EventBridge does not URL-encode it, as S3's own notifications do.
    """
    bucket, key = detail["bucket"]["name"], detail["object"]["key"]
    if key.endswith(SIDECAR_SUFFIX):
        return S3Location(bucket, key.removesuffix(SIDECAR_SUFFIX)), None, True
    version = detail["object"].get("version-id")
    return S3Location(bucket, key), None if version == NO_VERSION else version, False


def is_ours_by_name(key: str) -> bool:
    """Whether a key alone says that the object is no input."""
    name = key.rpartition("/")[2]
    return (
        not name
        or key.endswith(SIDECAR_SUFFIX)  # a sidecar's sidecar
        or _DOCUMENT.search(name) is not None
        or (_MADE.search(name) is not None and not is_request_file(key))  # a document's copy is one
        or _WORKING_FOLDER.match(key) is not None
        or ".previewFile." in name
    )


def is_ours(file: StoredObject) -> bool:
    """Whether a job wrote this object: by its metadata, or by its key, which is reserved for a job."""
    if OBJECT_MARKER in file.metadata:
        return True
    return ReservedKeys(state_table(environment().state_table)).owner(*file.location) is not None


def must_wait(event: dict[str, Any], from_sidecar: bool) -> bool:
    """Whether a prompt may still come: a sidecar is written beside its file, often after it."""
    return environment().grace_seconds > 0 and not from_sidecar and not event.get(GRACE_OVER)


def send_back(event: dict[str, Any], seconds: int) -> None:
    """Let an event come again, as a new message."""
    client("sqs").send_message(
        QueueUrl=environment().upload_queue_url, MessageBody=json.dumps(event), DelaySeconds=seconds
    )
