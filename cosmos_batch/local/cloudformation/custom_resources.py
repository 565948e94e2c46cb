"""Custom resources: functions that CloudFormation invokes and for whose answer it waits.

Two of CDK's own functions are written for Node.js, so their work is done here: the emptying of a bucket before its
deletion, and the provider framework, whose handlers are called directly.
"""
# ruff: noqa: ARG003 -- the signatures are those that moto calls.

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from moto.core.common_models import CloudFormationModel

from cosmos_batch.local import backends, runtime
from cosmos_batch.local.lambda_functions import invocations

TIMEOUT_SECONDS = 3600
POLL_SECONDS = 0.5

Answer = dict[str, Any]
_waiting: dict[str, tuple[threading.Event, Answer]] = {}


def receive(request_id: str, answer: Answer) -> None:
    """Accept the answer that a function put to its ResponseURL."""
    arrived, kept = _waiting[request_id]
    kept.update(answer)
    arrived.set()


class CustomResource(CloudFormationModel):
    """A custom resource. Its attributes are the ``Data`` of the last answer of its function."""

    def __init__(self, type_name: str, logical_id: str, stack_id: str) -> None:
        self.type_name, self.logical_id, self.stack_id = type_name, logical_id, stack_id
        self.physical_resource_id = ""
        self.properties: dict[str, Any] = {}
        self._data: dict[str, Any] = {}

    @staticmethod
    def cloudformation_name_type() -> str:
        return ""

    @staticmethod
    def cloudformation_type() -> str:
        return "AWS::CloudFormation::CustomResource"

    @classmethod
    def has_cfn_attr(cls, attr: str) -> bool:
        return True

    def get_cfn_attribute(self, attribute_name: str) -> Any:
        return self._data.get(attribute_name)

    @classmethod
    def create_from_cloudformation_json(
        cls, resource_name: str, cloudformation_json: Any, account_id: str, region_name: str, **kwargs: Any
    ) -> CustomResource:
        resource = cls(cloudformation_json["Type"], kwargs["LogicalId"], kwargs["StackId"])
        resource.physical_resource_id = resource_name
        resource._send("Create", cloudformation_json["Properties"])
        return resource

    @classmethod
    def update_from_cloudformation_json(
        cls, original_resource: CustomResource, new_resource_name: str, cloudformation_json: Any, *_: Any, **__: Any
    ) -> CustomResource:
        original_resource._send("Update", cloudformation_json["Properties"])
        return original_resource

    def delete(self, *_: Any) -> None:
        """Send Delete to the function and wait for its answer."""
        self._send("Delete", self.properties)

    def _send(self, request_type: str, properties: dict[str, Any]) -> None:
        properties = as_strings(properties)
        if self.type_name in _BUILT_IN:
            _BUILT_IN[self.type_name](request_type, properties)
        else:
            answer = self._request_function(request_type, properties)
            self._data = answer.get("Data") or {}
            self.physical_resource_id = answer.get("PhysicalResourceId") or self.physical_resource_id
        self.properties = properties

    def _request_function(self, request_type: str, properties: dict[str, Any]) -> Answer:
        request_id = str(uuid.uuid4())
        event = {
            "RequestType": request_type,
            "ServiceToken": properties["ServiceToken"],
            "ResponseURL": f"{runtime.current().endpoint}/local-cloud/custom-resources/{request_id}",
            "StackId": self.stack_id,
            "RequestId": request_id,
            "LogicalResourceId": self.logical_id,
            "ResourceType": self.type_name,
            "ResourceProperties": properties,
        }
        if request_type != "Create":
            event |= {"PhysicalResourceId": self.physical_resource_id, "OldResourceProperties": self.properties}
        function = backends.functions().get_function(properties["ServiceToken"])
        if "USER_ON_EVENT_FUNCTION_ARN" in function.environment_vars:
            return _request_through_provider(function, event)
        return _request_and_wait(function, event, request_id)


def as_strings(value: Any) -> Any:
    """Return properties as CloudFormation sends them to a function, with every scalar as text."""
    if isinstance(value, dict):
        return {name: as_strings(part) for name, part in value.items()}
    if isinstance(value, list):
        return [as_strings(part) for part in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def _request_and_wait(function: Any, event: dict[str, Any], request_id: str) -> Answer:
    arrived, answer = _waiting[request_id] = threading.Event(), {}
    _invoke(function, event)
    # The answer may come after the function has returned, from a process that it started.
    if not arrived.wait(TIMEOUT_SECONDS):
        raise TimeoutError(f"{function.function_name} put no answer to its ResponseURL within an hour")
    if answer.get("Status") != "SUCCESS":
        raise RuntimeError(answer.get("Reason") or f"{function.function_name} answered {answer}")
    return answer


def _request_through_provider(function: Any, event: dict[str, Any]) -> Answer:
    """Call ``onEvent`` once, then ``isComplete`` until it returns true, as CDK's provider framework does."""
    on_event = backends.functions().get_function(function.environment_vars["USER_ON_EVENT_FUNCTION_ARN"])
    answer = _invoke(on_event, event) or {}
    is_complete_arn = function.environment_vars.get("USER_IS_COMPLETE_FUNCTION_ARN")
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while is_complete_arn and time.monotonic() < deadline:
        progress = _invoke(backends.functions().get_function(is_complete_arn), {**event, **answer})
        if progress.get("IsComplete"):
            return {**answer, "Data": {**(answer.get("Data") or {}), **(progress.get("Data") or {})}}
        time.sleep(POLL_SECONDS)
    return answer


def _invoke(function: Any, event: dict[str, Any]) -> Any:
    outcome = invocations.invoke_now(function, event)
    answer = json.loads(outcome.payload)
    if outcome.failed:
        raise RuntimeError(f"{function.function_name} failed: {answer['errorType']}: {answer['errorMessage']}")
    return answer


def _empty_bucket(request_type: str, properties: dict[str, Any]) -> None:
    if request_type == "Delete" and properties["BucketName"] in backends.s3().buckets:
        backends.s3().buckets[properties["BucketName"]].keys.clear()


_BUILT_IN: dict[str, Callable[[str, dict[str, Any]], None]] = {
    "Custom::S3AutoDeleteObjects": _empty_bucket,
}
