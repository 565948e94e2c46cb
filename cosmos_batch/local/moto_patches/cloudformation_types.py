"""CloudFormation types that moto makes, but not all of them, or not from everything that CDK writes.

AWS: reads every property of its own schema. moto: see each mend.
"""
# ruff: noqa: ARG001, ARG005 -- the signatures are moto's.

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from moto.awslambda.models import EventSourceMapping, LambdaFunction
from moto.dynamodb.models.table import Table
from moto.ec2.models.vpcs import VPCEndPoint
from moto.ecr.models import Repository
from moto.efs.models import AccessPoint, FileSystem, MountTarget
from moto.iam.models import ManagedPolicy, Role
from moto.kms.models import Key
from moto.s3.models import FakeBucket
from moto.sqs.models import Queue
from moto.ssm.models import Parameter
from moto.stepfunctions.models import StateMachine

from cosmos_batch.local import backends
from cosmos_batch.local.moto_patches import ecr
from cosmos_batch.local.moto_patches.stepfunctions_tasks import state_machine_definition

Properties = dict[str, Any]

# moto has an update for these that refuses or loses things; they are deleted and made anew.
REPLACED = {MountTarget}


def apply() -> None:
    """Install the mend."""
    before(Repository, lambda name, properties: name.lower())  # A generated name has capitals; ECR's have none.
    before(Parameter, _named_parameter)
    before(Key, _tagged_key)
    before(Queue, _fifo_name)
    before(StateMachine, _inline_definition)
    before(EventSourceMapping, _typed_mapping)
    before(Key, _policy_text("KeyPolicy"))
    before(VPCEndPoint, _policy_text("PolicyDocument"))
    _configure_after(Role, _configure_role)
    ManagedPolicy.delete = lambda self, *_: backends.iam().delete_policy(self.arn)
    Table.update_from_cloudformation_json = classmethod(_keep_table)
    _configure_after(Table, _configure_table)
    _attributes(FileSystem, {"Arn": "file_system_arn", "FileSystemId": "file_system_id"})
    _attributes(AccessPoint, {"Arn": "access_point_arn", "AccessPointId": "access_point_id"})
    AccessPoint.physical_resource_id = property(lambda self: self.access_point_id)
    FileSystem.update_from_cloudformation_json = classmethod(_update_file_system)
    FileSystem.delete = lambda self, *_: backends.efs().delete_file_system(self.file_system_id)
    _configure_after(FakeBucket, _configure_bucket)
    _configure_after(LambdaFunction, _configure_function)
    _configure_after(Repository, ecr.configure)
    Queue.update_from_cloudformation_json = classmethod(_update_queue)
    _state_machine_arn()


def before(cls: Any, fix: Callable[[str, Properties], str | None]) -> None:
    """Let ``fix`` change the properties, and perhaps the name, before moto makes the resource from them."""
    for operation in ("create_from_cloudformation_json", "update_from_cloudformation_json"):
        _fix_before(cls, operation, fix)


def _fix_before(cls: Any, operation: str, fix: Callable[[str, Properties], str | None]) -> None:
    original = getattr(cls, operation).__func__
    if hasattr(original, "__isabstractmethod__"):
        return

    def create(cls: Any, resource_name: str, cloudformation_json: Any, *args: Any, **kwargs: Any) -> Any:
        name = fix(resource_name, cloudformation_json["Properties"]) or resource_name
        return original(cls, name, cloudformation_json, *args, **kwargs)

    def update(
        cls: Any, /, original_resource: Any, new_resource_name: str, cloudformation_json: Any, **kwargs: Any
    ) -> Any:
        name = fix(new_resource_name, cloudformation_json["Properties"]) or new_resource_name
        return original(cls, original_resource, name, cloudformation_json, **kwargs)

    setattr(cls, operation, classmethod(create if operation.startswith("create") else update))


def _configure_after(cls: Any, configure: Callable[[Any, Properties], None]) -> None:
    """Let ``configure`` apply what moto leaves out, after it made or changed a resource."""
    make, change = cls.create_from_cloudformation_json.__func__, cls.update_from_cloudformation_json.__func__

    def create(cls: Any, resource_name: str, cloudformation_json: Any, *args: Any, **kwargs: Any) -> Any:
        properties = copy.deepcopy(cloudformation_json["Properties"])
        resource = make(cls, resource_name, cloudformation_json, *args, **kwargs)
        configure(resource, properties)
        return resource

    def update(
        cls: Any, /, original_resource: Any, new_resource_name: str, cloudformation_json: Any, **kwargs: Any
    ) -> Any:
        properties = copy.deepcopy(cloudformation_json["Properties"])
        if cls is FakeBucket:
            # moto asks for the name when it changes tags, also if the template never gave one.
            cloudformation_json["Properties"].setdefault("BucketName", original_resource.name)
        resource = change(cls, original_resource, new_resource_name, cloudformation_json, **kwargs)
        configure(resource, properties)
        return resource

    cls.create_from_cloudformation_json, cls.update_from_cloudformation_json = classmethod(create), classmethod(update)


def _configure_bucket(bucket: FakeBucket, properties: Properties) -> None:
    status = properties.get("VersioningConfiguration", {}).get("Status")
    if status:
        bucket.versioning_status = status
    notifications = properties.get("NotificationConfiguration", {})
    if str(notifications.get("EventBridgeConfiguration", {}).get("EventBridgeEnabled", False)).lower() == "true":
        bucket.set_notification_configuration({"EventBridgeConfiguration": {}})


def _configure_function(function: LambdaFunction, properties: Properties) -> None:
    group = properties.get("LoggingConfig", {}).get("LogGroup")
    function.logs_group_name = group or f"/aws/lambda/{function.function_name}"
    function.environment_vars = properties.get("Environment", {}).get("Variables", {})


def _named_parameter(name: str, properties: Properties) -> None:
    """moto makes up no name, and reads tags as a list: the template has them as names and values."""
    properties.setdefault("Name", name)
    if isinstance(tags := properties.get("Tags"), dict):
        properties["Tags"] = [{"Key": key, "Value": value} for key, value in tags.items()]


def _tagged_key(name: str, properties: Properties) -> None:
    """moto reads the tags of a key as the service's own API has them."""
    properties["Tags"] = [
        {"TagKey": tag.get("Key", tag.get("TagKey")), "TagValue": tag.get("Value", tag.get("TagValue"))}
        for tag in properties.get("Tags", [])
    ]


def _fifo_name(name: str, properties: Properties) -> str:
    """CloudFormation ends the name that it makes up for a FIFO queue with .fifo; moto refuses its own."""
    fifo = str(properties.get("FifoQueue", False)).lower() == "true"
    return f"{name[:75]}.fifo" if fifo and not name.endswith(".fifo") else name


def _inline_definition(name: str, properties: Properties) -> None:
    properties["DefinitionString"] = state_machine_definition(
        properties, lambda bucket, key: backends.s3().get_object(bucket, key).value
    )


def _policy_text(member: str) -> Callable[[str, Properties], None]:
    """moto wants the text of a policy here, and keeps anything else as Python prints it."""

    def fix(name: str, properties: Properties) -> None:
        if member in properties:
            properties[member] = _text(properties[member])

    return fix


def _text(policy: Any) -> str:
    return policy if isinstance(policy, str) else json.dumps(policy)


def _typed_mapping(name: str, properties: Properties) -> None:
    if "BatchSize" in properties:
        properties["BatchSize"] = int(properties["BatchSize"])
    properties["Enabled"] = str(properties.get("Enabled", True)).lower() == "true"


def _attributes(cls: Any, names: dict[str, str]) -> None:
    cls.has_cfn_attr = classmethod(lambda _, name: name in names)
    cls.get_cfn_attribute = lambda self, name: getattr(self, names[name])


def _update_queue(
    cls: Any, /, original_resource: Queue, new_resource_name: str, cloudformation_json: Any, **_: Any
) -> Queue:
    """moto changes two attributes of a queue; here all but its name and kind can be changed."""
    fixed = {"QueueName", "FifoQueue", "Tags"}
    attributes = {name: value for name, value in cloudformation_json["Properties"].items() if name not in fixed}
    original_resource._set_attributes(attributes)
    with original_resource._messages_lock:
        original_resource._messages_lock.notify_all()
    return original_resource


def _update_file_system(
    cls: Any, /, original_resource: FileSystem, new_resource_name: str, cloudformation_json: Any, **_: Any
) -> FileSystem:
    """moto would delete it, which mount targets forbid. AWS changes lifecycle and tags in place; what it replaces a
    file system for (encryption, performance mode, a single zone) is left as it is here.
    """
    properties, efs = cloudformation_json["Properties"], backends.efs()
    efs.put_lifecycle_configuration(original_resource.file_system_id, properties.get("LifecyclePolicies", []))
    efs.tagging_service.tag_resource(original_resource.file_system_id, properties.get("FileSystemTags", []))
    return original_resource


def _keep_table(
    cls: Any, /, original_resource: Table, new_resource_name: str, cloudformation_json: Any, **_: Any
) -> Table:
    """moto makes a table anew, without its rows. Its indices and time to live are changed in place instead."""
    return original_resource


def _configure_role(role: Role, properties: Properties) -> None:
    role.policies = {policy["PolicyName"]: _text(policy["PolicyDocument"]) for policy in properties.get("Policies", [])}


def _configure_table(table: Table, properties: Properties) -> None:
    if "GlobalSecondaryIndexes" in properties:
        table.attr = properties["AttributeDefinitions"]
    if "TimeToLiveSpecification" in properties:
        ttl = properties["TimeToLiveSpecification"]
        table.ttl["TimeToLiveStatus"] = "ENABLED" if ttl["Enabled"] else "DISABLED"
        table.ttl["AttributeName"] = ttl["AttributeName"]


def _state_machine_arn() -> None:
    has, get = StateMachine.has_cfn_attr.__func__, StateMachine.get_cfn_attribute
    StateMachine.has_cfn_attr = classmethod(lambda cls, name: name == "Arn" or has(cls, name))
    StateMachine.get_cfn_attribute = lambda self, name: self.arn if name == "Arn" else get(self, name)
