"""Patch what all services share: record who calls what, and add two caches."""

from __future__ import annotations

import functools
import json
from typing import Any

import botocore.loaders
import botocore.session
from moto.core import responses
from moto.core.responses import BaseResponse
from moto.s3.responses import S3Response

from cosmos_batch.local import billed_units, recorded_calls
from cosmos_batch.local.moto_patches.registry import patch, replace

# The request members that name the resource of a call, in the order in which they are looked for.
_RESOURCE_MEMBERS = (
    "QueueUrl",
    "TableName",
    "FunctionName",
    "stateMachineArn",
    "executionArn",
    "jobQueue",
    "jobId",
    "SecretId",
    "TopicArn",
    "logGroupName",
    "repositoryName",
    "projectName",
    "Name",
)


@patch(
    "core.method-names-are-cached",
    brings="Speed: the methods of a service's class are looked up once.",
    moto="Looks them up by reflection for every request.",
    source="https://github.com/getmoto/moto/blob/master/moto/core/responses.py",
)
def _cache_method_names() -> None:
    replace(responses, "method_names_from_class", functools.cache(responses.method_names_from_class))


@patch(
    "core.service-models-are-cached",
    brings="Speed: botocore's model of a service is read once.",
    moto="Reads it for every backend and for every client of a new session.",
    source="https://github.com/boto/botocore/blob/develop/botocore/session.py",
)
def _cache_service_models() -> None:
    replace(botocore.session, "create_loader", functools.cache(botocore.loaders.create_loader))


@patch(
    "core.calls-are-recorded-by-role",
    brings="Each call with a role's credentials is recorded with the role, as CloudTrail does.",
    moto="Knows accounts and no roles.",
    source="https://docs.aws.amazon.com/awscloudtrail/latest/userguide/cloudtrail-event-reference-user-identity.html",
)
def _record_calls() -> None:
    _record_actions()
    _record_s3_actions()


def _record_actions() -> None:
    original = BaseResponse.call_action

    def call_action(self: BaseResponse) -> Any:
        role = recorded_calls.role_of(self.access_key)
        if not role:
            return original(self)
        call = recorded_calls.RecordedCall(role, self.boto3_service_name, self._get_action(), _resource(self))
        recorded_calls.record(call)
        answer = original(self)
        if billed_units.is_measured(call.service):
            recorded_calls.record_units(
                call, billed_units.units_of(call.service, call.operation, self.params, answer[2])
            )
        return answer

    replace(BaseResponse, "call_action", call_action)


def _record_s3_actions() -> None:
    original = S3Response._set_action

    def set_action(self: S3Response, action_resource_type: str, method: str, querystring: dict[str, Any]) -> None:
        original(self, action_resource_type, method, querystring)
        role = recorded_calls.role_of(self.access_key)
        if role:
            action = _s3_action(self.data["Action"], querystring)
            recorded_calls.record(recorded_calls.RecordedCall(role, "s3", action, self.path.lstrip("/")))

    replace(S3Response, "_set_action", set_action)


def _s3_action(action: str, querystring: dict[str, Any]) -> str:
    """Return the action that IAM checks. moto ignores a version in HEAD, and takes the tags of one for the version."""
    if action.startswith("GetObject") and "versionId" in querystring:
        return "GetObjectVersionTagging" if "tagging" in querystring else "GetObjectVersion"
    return action


def _resource(response: BaseResponse) -> str:
    if "/functions/" in response.path:
        return response.path.split("/functions/")[1].split("/")[0]
    body = response.body
    if isinstance(body, str) and body.startswith("{"):
        body = json.loads(body)
    if not isinstance(body, dict):  # moto's DynamoDB has read the body already
        return ""
    return next((str(body[name]) for name in _RESOURCE_MEMBERS if name in body), "")
