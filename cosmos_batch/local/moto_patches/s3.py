"""Patches of moto's S3: events have AWS's shape, conditions of bucket policies hold, templates are read in full."""
# ruff: noqa: ARG001 -- the signatures are moto's.

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from moto.iam.access_control import PermissionResult
from moto.s3 import notifications
from moto.s3.models import FakeBucket
from moto.s3.responses import S3Response

from cosmos_batch.local.cloudformation.simulated_type import Properties
from cosmos_batch.local.eventbridge import delivery
from cosmos_batch.local.moto_patches.registry import RESOURCE_PAGES, patch, replace
from cosmos_batch.local.moto_patches.resources import configure_after, is_true
from cosmos_batch.local.runtime import ACCOUNT

_EVENTS_PAGE = "https://docs.aws.amazon.com/AmazonS3/latest/userguide/ev-events.html"
_BUCKET_PAGE = f"{RESOURCE_PAGES}aws-resource-s3-bucket.html"

_REASONS = {
    "s3:ObjectCreated:Put": "PutObject",
    "s3:ObjectCreated:Post": "POST Object",
    "s3:ObjectCreated:Copy": "CopyObject",
    "s3:ObjectCreated:CompleteMultipartUpload": "CompleteMultipartUpload",
    "s3:ObjectRemoved:Delete": "DeleteObject",
    "s3:ObjectRemoved:DeleteMarkerCreated": "DeleteObject",
}

_request = threading.local()
_conditional = threading.RLock()  # tests that install a patch twice go through it twice


@patch(
    "s3.events-have-their-own-fields",
    brings="The EventBridge event of an object has its etag, a sequencer, a request id and the reason PutObject.",
    moto="Calls it eTag, has one constant id and sequencer, and the reason ObjectCreated.",
    source=_EVENTS_PAGE,
)
def _describe_objects() -> None:
    replace(notifications, "_send_event_bridge_message", _hold_event)


@patch(
    "s3.one-event-for-one-object",
    brings="An object that is put has one event, sent when it is complete with its metadata and tags.",
    moto="Sends the event before metadata and tags are set, events of new tags and a new ACL whenever an object is "
    "put, and one of a put when a multipart upload is completed.",
    source=_EVENTS_PAGE,
)
def _publish_after_requests() -> None:
    for name in ("key_response", "bucket_response"):
        _publish_after(name)


@patch(
    "s3.conditional-writes-are-atomic",
    brings="Of several writes at once that require that there is no such object, exactly one succeeds.",
    moto="Looks whether there is an object and writes it later, while the threads of other requests do the same.",
    source="https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html",
)
def _serve_conditional_writes_alone() -> None:
    replace(S3Response, "put_object", conditional_writes_alone(S3Response.put_object))


def conditional_writes_alone(original: Callable[[S3Response], Any]) -> Callable[[S3Response], Any]:
    """Return the function that serves a request to put an object, with conditional ones one after the other."""

    def put_object(self: S3Response) -> Any:
        if "If-None-Match" not in self.headers:
            return original(self)
        with _conditional:
            return original(self)

    return put_object


@patch(
    "s3.conditions-of-bucket-policies",
    brings="A Deny whose Condition does not hold denies nothing. The local cloud goes further: no policy denies "
    "anything.",
    moto="Ignores the Condition, so that a policy that enforces TLS denies everything.",
    source="https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition.html",
)
def _allow_everything() -> None:
    replace(FakeBucket, "get_permission", lambda *_: PermissionResult.NEUTRAL)


@patch(
    "s3.bucket-updates",
    brings="A stack update changes versioning, and the tags of a bucket whose template gives no name.",
    moto="Ignores versioning in an update, and requires a name to change tags.",
    source=_BUCKET_PAGE,
)
def _update_buckets() -> None:
    change = FakeBucket.update_from_cloudformation_json.__func__

    def update(
        cls: Any, /, original_resource: FakeBucket, new_resource_name: str, cloudformation_json: Any, **kwargs: Any
    ) -> Any:
        cloudformation_json["Properties"].setdefault("BucketName", original_resource.name)
        return change(cls, original_resource, new_resource_name, cloudformation_json, **kwargs)

    replace(FakeBucket, "update_from_cloudformation_json", classmethod(update))
    configure_after(FakeBucket, _configure_versioning)


def _configure_versioning(bucket: FakeBucket, properties: Properties) -> None:
    status = properties.get("VersioningConfiguration", {}).get("Status")
    if status:
        bucket.versioning_status = status


@patch(
    "s3.templates-switch-eventbridge-on",
    brings="EventBridgeConfiguration in a template makes a bucket send its events to EventBridge.",
    moto="Ignores it.",
    source=_BUCKET_PAGE,
)
def _switch_eventbridge_on() -> None:
    configure_after(FakeBucket, _configure_notifications)


def _configure_notifications(bucket: FakeBucket, properties: Properties) -> None:
    eventbridge = properties.get("NotificationConfiguration", {}).get("EventBridgeConfiguration", {})
    if is_true(eventbridge.get("EventBridgeEnabled", False)):
        bucket.set_notification_configuration({"EventBridgeConfiguration": {}})


def _publish_after(name: str) -> None:
    original = getattr(S3Response, name)

    def response(self: S3Response, request: Any, full_url: str, headers: Any) -> Any:
        _request.events = []
        try:
            return original(self, request, full_url, headers)
        finally:
            for event in _events_of_request(_request.events):
                delivery.publish(event)
            _request.events = []

    replace(S3Response, name, response)


def _events_of_request(events: list[delivery.Event]) -> list[delivery.Event]:
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
