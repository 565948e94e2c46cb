"""Read what each role may do by the deployed policies, and what it did by the local cloud's record."""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any, NamedTuple
from urllib.parse import unquote

from tests.support.deployed_app import App

_SERVICES = {"stepfunctions": "states"}
_ACTIONS = {
    "lambda:invoke": "lambda:invokefunction",
    "sqs:changemessagevisibilitybatch": "sqs:changemessagevisibility",
    "sqs:sendmessagebatch": "sqs:sendmessage",
}
PREFIX = "CosmosBatch-"
_ACCOUNT = "us-east-1:123456789012"
# How an ARN ends, where the record tells a name.
_ENDS = {
    "batch": "job/{}",
    "codebuild": "project/{}",
    "dynamodb": "table/{}",
    "ecr": "repository/{}",
    "lambda": "function:{}",
    "secretsmanager": "secret:{}",
    "sqs": "{}",
}


class Grant(NamedTuple):
    """An allowed action; `role` is the part of the role's name that comes from its construct."""

    role: str
    action: str  # in lower case: IAM does not tell cases apart
    resource: str


class Use(NamedTuple):
    """A kind of call. `resource` is None if the record does not name it."""

    role: str
    action: str
    resource: str | None


def grants(app: App) -> list[Grant]:
    """Return every allowed action of every role of ours."""
    return [grant for role in _roles(app) for grant in _grants_of(app, role)]


def uses(app: App) -> list[Use]:
    """Return every kind of call that a role of ours has made."""
    return [
        Use(short(call["role"]), _action(call), _arn(call))
        for call in app.cloud.calls()
        if call["role"].startswith(PREFIX)
    ]


def covers(grant: Grant, use: Use) -> bool:
    """Return whether a grant allows a call."""
    return (
        grant.role == use.role
        and fnmatchcase(use.action, grant.action)
        and (use.resource is None or fnmatchcase(use.resource, grant.resource))
    )


def short(role: str) -> str:
    """Return `FunctionsUpload` for `CosmosBatch-Pipelines-FunctionsUploadRole1E16...`."""
    match = re.match(r"CosmosBatch-[A-Za-z]+-(.+?)Role[0-9A-F]{4}", role)
    return match.group(1) if match else role


def _roles(app: App) -> list[str]:
    listed = app.client("iam").list_roles()["Roles"]
    return [role["RoleName"] for role in listed if role["RoleName"].startswith(PREFIX)]


def _grants_of(app: App, role: str) -> Iterator[Grant]:
    iam = app.client("iam")
    for name in iam.list_role_policies(RoleName=role)["PolicyNames"]:
        document = iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"]
        for statement in document["Statement"]:
            assert statement["Effect"] == "Allow"
            for action in _listed(statement["Action"]):
                for resource in _listed(statement["Resource"]):
                    yield Grant(short(role), action.lower(), resource)


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def _action(call: dict[str, Any]) -> str:
    action = f"{_SERVICES.get(call['service'], call['service'])}:{call['operation']}".lower()
    return _ACTIONS.get(action, action)


def _arn(call: dict[str, Any]) -> str | None:
    resource, service = call["resource"], call["service"]
    if service == "s3":
        return f"arn:aws:s3:::{resource}".rstrip("/")
    name = resource.rpartition("/")[2] if service == "sqs" else unquote(resource)
    if not name or name.startswith("arn:"):
        return name or None
    return f"arn:aws:{service}:{_ACCOUNT}:{_ENDS[service].format(name)}"
