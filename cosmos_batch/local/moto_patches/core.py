"""What all services share.

AWS: knows which role calls.

moto: looks up the methods of a service's class by reflection for every request, reads boto3's model of a service for
every backend and client, and knows only accounts.

Mend: look-ups and models are kept, and each request that carries a role's access key is recorded in ``identity``.
"""

from __future__ import annotations

import functools
import json
from typing import Any

import botocore.loaders
import botocore.session
from moto.core import responses
from moto.core.responses import BaseResponse
from moto.s3.responses import S3Response

from cosmos_batch.local import identity

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


def apply() -> None:
    """Install the mend."""
    responses.method_names_from_class = functools.cache(responses.method_names_from_class)
    botocore.session.create_loader = functools.cache(botocore.loaders.create_loader)
    _record_actions()
    _record_s3_actions()


def _record_actions() -> None:
    original = BaseResponse.call_action

    def call_action(self: BaseResponse) -> Any:
        role = identity.role_of(self.access_key)
        if role:
            service = self.boto3_service_name
            identity.record(identity.RecordedCall(role, service, self._get_action(), _resource(self)))
        return original(self)

    BaseResponse.call_action = call_action


def _record_s3_actions() -> None:
    original = S3Response._set_action

    def set_action(self: S3Response, action_resource_type: str, method: str, querystring: dict[str, Any]) -> None:
        original(self, action_resource_type, method, querystring)
        role = identity.role_of(self.access_key)
        if role:
            action = _s3_action(self.data["Action"], querystring)
            identity.record(identity.RecordedCall(role, "s3", action, self.path.lstrip("/")))

    S3Response._set_action = set_action


def _s3_action(action: str, querystring: dict[str, Any]) -> str:
    """Return what IAM asks for. moto has no version for HEAD, and takes the tags of a version for the version."""
    if action.startswith("GetObject") and "versionId" in querystring:
        return "GetObjectVersionTagging" if "tagging" in querystring else "GetObjectVersion"
    return action


def _resource(response: BaseResponse) -> str:
    if "/functions/" in response.path:
        return response.path.split("/functions/")[1].split("/")[0]
    body = response.body
    if isinstance(body, str) and body.startswith("{"):
        body = json.loads(body)
    if not isinstance(body, dict):  # DynamoDB's has been read already
        return ""
    return next((str(body[name]) for name in _RESOURCE_MEMBERS if name in body), "")
