"""S3.

AWS: the EventBridge event of an object has ``etag``, ``sequencer``, ``reason: PutObject`` and so on, and comes after
the object is complete.

moto: says ``eTag``, has one constant id and sequencer, says ``reason: ObjectCreated``, sends the event before the
metadata and tags of the object are set, tells of new tags and a new ACL whenever an object is put, and of a put when a
multipart upload is completed; ignores the Condition of a bucket policy, so that one that enforces TLS denies all.

Mend: the event in AWS's shape, sent when the request that caused it has been answered; policies decide nothing.
"""
# ruff: noqa: ARG001 -- the signatures are moto's.

from __future__ import annotations

import threading
import time
import uuid
from typing import Any

from moto.iam.access_control import PermissionResult
from moto.s3 import notifications
from moto.s3.models import FakeBucket
from moto.s3.responses import S3Response

from cosmos_batch.local.eventbridge import delivery
from cosmos_batch.local.runtime import ACCOUNT

_REASONS = {
    "s3:ObjectCreated:Put": "PutObject",
    "s3:ObjectCreated:Post": "POST Object",
    "s3:ObjectCreated:Copy": "CopyObject",
    "s3:ObjectCreated:CompleteMultipartUpload": "CompleteMultipartUpload",
    "s3:ObjectRemoved:Delete": "DeleteObject",
    "s3:ObjectRemoved:DeleteMarkerCreated": "DeleteObject",
}

_request = threading.local()


def apply() -> None:
    """Install the mend."""
    notifications._send_event_bridge_message = _hold_event
    FakeBucket.get_permission = lambda *_: PermissionResult.NEUTRAL
    for name in ("key_response", "bucket_response"):
        _publish_after(name)


def _publish_after(name: str) -> None:
    original = getattr(S3Response, name)

    def response(self: S3Response, request: Any, full_url: str, headers: Any) -> Any:
        _request.events = []
        try:
            return original(self, request, full_url, headers)
        finally:
            for event in _told_by_aws(_request.events):
                delivery.publish(event)
            _request.events = []

    setattr(S3Response, name, response)


def _told_by_aws(events: list[delivery.Event]) -> list[delivery.Event]:
    """Return the events of one request: one for a created object, whose parts, tags and ACL have none of their own."""
    created = [event for event in events if event["detail-type"] == "Object Created"]
    return created[-1:] or events


def _hold_event(account_id: str, bucket: Any, event_name: str, key: Any) -> None:
    name = getattr(event_name, "value", event_name)
    event = delivery.new_event("aws.s3", notifications._detail_type(name), _detail(bucket, name, key), [bucket.arn])
    held = getattr(_request, "events", None)
    if held is None:
        delivery.publish(event)
    else:
        held.append(event)


def _detail(bucket: Any, event_name: str, key: Any) -> dict[str, Any]:
    described = {
        "key": key.name,
        "size": key.size,
        "etag": key.etag.strip('"'),
        "sequencer": f"{time.time_ns():018X}",
    }
    if bucket.is_versioned:
        described["version-id"] = key.version_id
    detail = {
        "version": "0",
        "bucket": {"name": bucket.name},
        "object": described,
        "request-id": uuid.uuid4().hex[:16].upper(),
        "requester": ACCOUNT,
        "source-ip-address": "127.0.0.1",
    }
    if event_name in _REASONS:
        detail["reason"] = _REASONS[event_name]
    return detail
