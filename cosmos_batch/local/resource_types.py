"""CloudFormation types that moto lacks: those made here by a call of their service, and those only accepted.

The signatures are those that moto calls, whether or not a type needs all that it gets.
"""
# ruff: noqa: ARG001, ARG003, ARG005

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from moto.core.common_models import CloudFormationModel

from cosmos_batch.local import backends
from cosmos_batch.local.runtime import ACCOUNT, REGION, operator_client

Properties = dict[str, Any]

# Type -> why nothing is made. Printed at every deployment that has one.
ACCEPTED_WITHOUT_BEING_MADE = {
    "AWS::Budgets::Budget": "the local cloud costs nothing",
    "AWS::CDK::Metadata": "it describes the template, not the application",
    "AWS::CloudWatch::CompositeAlarm": "alarms are kept but never evaluated",
    "AWS::EC2::PlacementGroup": "jobs run on this machine",
    "AWS::EC2::SecurityGroupEgress": "traffic is not filtered",
    "AWS::EFS::FileSystemPolicy": "no IAM decision is made",
    "AWS::Logs::MetricFilter": "metrics are not derived from logs",
    "AWS::S3::BucketPolicy": "moto ignores Condition, so a policy that enforces TLS would deny every request",
    "AWS::SecretsManager::ResourcePolicy": "no IAM decision is made",
    "AWS::SNS::Subscription": "nobody is notified",
    "AWS::SNS::TopicPolicy": "no IAM decision is made",
    "AWS::SQS::QueueInlinePolicy": "no IAM decision is made",
    "AWS::SQS::QueuePolicy": "no IAM decision is made",
}


@dataclass(frozen=True)
class Made:
    """How a type is made.

    ``put`` takes a name and the properties, makes or changes the resource, and returns its physical id and attributes.
    ``remove`` takes the physical id.
    """

    put: Callable[[str, Properties], tuple[str, dict[str, str]]]
    remove: Callable[[str], Any]


def api_casing(value: Any) -> Any:
    """Return template properties with names that begin in lower case, as the services' APIs spell them."""
    if isinstance(value, dict):
        return {name[:1].lower() + name[1:]: api_casing(part) for name, part in value.items()}
    return [api_casing(part) for part in value] if isinstance(value, list) else value


def _put_secret(name: str, properties: Properties) -> tuple[str, dict[str, str]]:
    client, value = operator_client("secretsmanager"), properties.get("SecretString")
    if "GenerateSecretString" in properties:
        value = _generated_secret(properties["GenerateSecretString"])
    content = {"SecretString": value} if value is not None else {}
    try:
        arn = client.create_secret(Name=name, Description=properties.get("Description", ""), **content)["ARN"]
    except client.exceptions.ResourceExistsException:
        # A value that is not in the template was put by somebody else, and stays.
        arn = client.describe_secret(SecretId=name)["ARN"]
        if "SecretString" in properties:
            client.put_secret_value(SecretId=arn, SecretString=properties["SecretString"])
    return arn, {"Id": arn}


def _generated_secret(options: Properties) -> str:
    password = operator_client("secretsmanager").get_random_password(PasswordLength=options.get("PasswordLength", 32))
    if "GenerateStringKey" not in options:
        return password["RandomPassword"]
    template = json.loads(options["SecretStringTemplate"])
    return json.dumps({**template, options["GenerateStringKey"]: password["RandomPassword"]})


def _put_project(name: str, properties: Properties) -> tuple[str, dict[str, str]]:
    described = api_casing(properties)
    source = described["source"]
    if "buildSpec" in source:
        source["buildspec"] = source.pop("buildSpec")
    project = backends.builds().create_project(
        project_name=name,
        description=described.get("description"),
        project_source=source,
        artifacts=described["artifacts"],
        environment=described["environment"],
        service_role=described["serviceRole"],
        tags=described.get("tags", []),
        cache=described.get("cache"),
        timeout=described.get("timeoutInMinutes"),
        queued_timeout=described.get("queuedTimeoutInMinutes"),
        source_version=None,
        logs_config=described.get("logsConfig"),
        vpc_config=described.get("vpcConfig"),
    )
    return name, {"Arn": project["arn"]}


def _put_alarm(name: str, properties: Properties) -> tuple[str, dict[str, str]]:
    settings = {key: value for key, value in properties.items() if key not in ("AlarmName", "Tags")}
    operator_client("cloudwatch").put_metric_alarm(AlarmName=name, **settings)
    return name, {"Arn": f"arn:aws:cloudwatch:{REGION}:{ACCOUNT}:alarm:{name}"}


def _put_scheduling_policy(name: str, properties: Properties) -> tuple[str, dict[str, str]]:
    arn = f"arn:aws:batch:{REGION}:{ACCOUNT}:scheduling-policy/{name}"
    policy = api_casing(properties.get("FairsharePolicy", {}))
    if arn in backends.batch()._scheduling_policies:
        operator_client("batch").update_scheduling_policy(arn=arn, fairsharePolicy=policy)
    else:
        operator_client("batch").create_scheduling_policy(name=name, fairsharePolicy=policy)
    return arn, {"Arn": arn}


def _put_invoke_config(name: str, properties: Properties) -> tuple[str, dict[str, str]]:
    settings = {key: value for key, value in properties.items() if key not in ("FunctionName", "Qualifier")}
    function = backends.functions().get_function(properties["FunctionName"])
    function.event_invoke_config = []
    backends.functions().put_function_event_invoke_config(properties["FunctionName"], settings)
    return properties["FunctionName"], {}


def _remove_invoke_config(function_name: str) -> None:
    backends.functions().get_function(function_name).event_invoke_config = []


MADE = {
    "AWS::Batch::SchedulingPolicy": Made(
        _put_scheduling_policy, lambda arn: operator_client("batch").delete_scheduling_policy(arn=arn)
    ),
    "AWS::CloudWatch::Alarm": Made(
        _put_alarm, lambda name: operator_client("cloudwatch").delete_alarms(AlarmNames=[name])
    ),
    "AWS::CodeBuild::Project": Made(_put_project, lambda name: operator_client("codebuild").delete_project(name=name)),
    "AWS::Lambda::EventInvokeConfig": Made(_put_invoke_config, _remove_invoke_config),
    "AWS::SecretsManager::Secret": Made(
        _put_secret,
        lambda arn: operator_client("secretsmanager").delete_secret(SecretId=arn, ForceDeleteWithoutRecovery=True),
    ),
}

_NAME_PROPERTIES = {
    "AWS::Batch::SchedulingPolicy": "Name",
    "AWS::CloudWatch::Alarm": "AlarmName",
    "AWS::CodeBuild::Project": "Name",
    "AWS::SecretsManager::Secret": "Name",
}


class _Resource:
    """A resource of one of this module's types."""

    type_name = ""
    made = Made(lambda name, properties: (name, {}), lambda physical_id: None)

    def __init__(self, name: str, physical_id: str, attributes: dict[str, str]) -> None:
        self.name, self.physical_resource_id, self._attributes = name, physical_id, attributes

    @classmethod
    def cloudformation_type(cls) -> str:
        return cls.type_name

    @classmethod
    def cloudformation_name_type(cls) -> str:
        return _NAME_PROPERTIES.get(cls.type_name, "")

    @classmethod
    def has_cfn_attr(cls, attr: str) -> bool:
        return True

    def get_cfn_attribute(self, name: str) -> str | None:
        return self._attributes.get(name)

    @classmethod
    def create_from_cloudformation_json(
        cls, resource_name: str, cloudformation_json: Any, *_: Any, **__: Any
    ) -> _Resource:
        return cls(resource_name, *cls.made.put(resource_name, cloudformation_json["Properties"]))

    @classmethod
    def update_from_cloudformation_json(
        cls, original_resource: _Resource, new_resource_name: str, cloudformation_json: Any, *_: Any, **__: Any
    ) -> _Resource:
        return cls(original_resource.name, *cls.made.put(original_resource.name, cloudformation_json["Properties"]))

    def delete(self, *_: Any) -> None:
        self.made.remove(self.physical_resource_id)


def classes() -> list[type[CloudFormationModel]]:
    """Return a class for each type of this module; moto finds them as the direct subclasses of its own base class."""
    types = {**dict.fromkeys(ACCEPTED_WITHOUT_BEING_MADE, _Resource.made), **MADE}
    return [
        type(name.replace("::", ""), (_Resource, CloudFormationModel), {"type_name": name, "made": made})
        for name, made in types.items()
    ]
