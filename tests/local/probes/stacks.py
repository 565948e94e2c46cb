"""Probes of CloudFormation, and of the resources of EC2, EFS, KMS and Parameter Store in a template."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import Mock

from moto.cloudformation.models import Stack

from tests.local.probes.registry import ProbedCloud, error_code, probe, resource, unique

TAGS = [{"Key": "Name", "Value": "probe"}]
STATEMENT = {"Effect": "Allow", "Action": "*", "Resource": "*", "Principal": "*"}
POLICY = {"Version": "2012-10-17", "Statement": [STATEMENT]}
BAD_POLICY = resource("AWS::IAM::ManagedPolicy", PolicyDocument={"Statement": [{"Effect": "Nonsense"}]})


def _vpc() -> dict[str, Any]:
    return {"Vpc": resource("AWS::EC2::VPC", CidrBlock="10.0.0.0/16")}


@probe("ec2.tags-of-templates")
def _tags(cloud: ProbedCloud) -> Any:
    properties = {"VpcId": {"Ref": "Vpc"}, "Tags": TAGS}
    table = cloud.stack().put({**_vpc(), "R": resource("AWS::EC2::RouteTable", **properties)}, {"Id": {"Ref": "R"}})
    [described] = cloud.client("ec2").describe_route_tables(RouteTableIds=[table["Id"]])["RouteTables"]
    return {"Key": "Name", "Value": "probe"} in described["Tags"]


@probe("ec2.stacks-delete-what-they-made")
def _deletions(cloud: ProbedCloud) -> Any:
    stack, ec2 = cloud.stack(), cloud.client("ec2")
    address = stack.put_one(resource("AWS::EC2::EIP", Domain="vpc"))
    gateway_stack = cloud.stack()
    gateway = gateway_stack.put_one(resource("AWS::EC2::InternetGateway"))
    stack.delete()
    gateway_stack.delete()
    left = [one["PublicIp"] for one in ec2.describe_addresses()["Addresses"]]
    gateways = [one["InternetGatewayId"] for one in ec2.describe_internet_gateways()["InternetGateways"]]
    return address not in left and gateway not in gateways


@probe("ec2.endpoint-policies-are-json")
def _endpoint_policies(cloud: ProbedCloud) -> Any:
    properties = {"VpcId": {"Ref": "Vpc"}, "ServiceName": "com.amazonaws.us-east-1.s3", "PolicyDocument": POLICY}
    endpoint = resource("AWS::EC2::VPCEndpoint", VpcEndpointType="Gateway", RouteTableIds=[], **properties)
    outputs = cloud.stack().put({**_vpc(), "E": endpoint}, {"Id": {"Ref": "E"}})
    described = cloud.client("ec2").describe_vpc_endpoints(VpcEndpointIds=[outputs["Id"]])["VpcEndpoints"]
    return json.loads(described[0]["PolicyDocument"]) == POLICY


@probe("efs.attributes-of-resources")
def _efs_attributes(cloud: ProbedCloud) -> Any:
    resources = {
        "Files": resource("AWS::EFS::FileSystem"),
        "Point": resource("AWS::EFS::AccessPoint", FileSystemId={"Ref": "Files"}),
    }
    outputs = cloud.stack().put(
        resources, {"Arn": {"Fn::GetAtt": ["Files", "Arn"]}, "Point": {"Fn::GetAtt": ["Point", "AccessPointId"]}}
    )
    return ":file-system/" in outputs["Arn"] and outputs["Point"].startswith("fsap-")


def _file_system(days: int) -> dict[str, Any]:
    return resource("AWS::EFS::FileSystem", LifecyclePolicies=[{"TransitionToIA": f"AFTER_{days}_DAYS"}])


@probe("efs.file-systems-change-in-place")
def _file_systems(cloud: ProbedCloud) -> Any:
    stack = cloud.stack()
    first, second = stack.put_one(_file_system(30)), stack.put_one(_file_system(60))
    policies = cloud.client("efs").describe_lifecycle_configuration(FileSystemId=second)["LifecyclePolicies"]
    return first == second and policies == [{"TransitionToIA": "AFTER_60_DAYS"}]


@probe("kms.tags-of-templates")
def _key_tags(cloud: ProbedCloud) -> Any:
    key = cloud.stack().put_one(resource("AWS::KMS::Key", KeyPolicy=json.dumps(POLICY), Tags=TAGS))
    return cloud.client("kms").list_resource_tags(KeyId=key)["Tags"] == [{"TagKey": "Name", "TagValue": "probe"}]


@probe("kms.key-policies-are-json")
def _key_policies(cloud: ProbedCloud) -> Any:
    key = cloud.stack().put_one(resource("AWS::KMS::Key", KeyPolicy=POLICY))
    return json.loads(cloud.client("kms").get_key_policy(KeyId=key, PolicyName="default")["Policy"]) == POLICY


@probe("ssm.parameters-of-templates")
def _parameters(cloud: ProbedCloud) -> Any:
    name = cloud.stack().put_one(resource("AWS::SSM::Parameter", Type="String", Value="v", Tags={"a": "b"}))
    tags = cloud.client("ssm").list_tags_for_resource(ResourceType="Parameter", ResourceId=name)["TagList"]
    return tags == [{"Key": "a", "Value": "b"}]


@probe("ssm.parameters-are-changed-in-place")
def _changed_parameters(cloud: ProbedCloud) -> Any:
    """A parameter that was deleted and made anew has its first version again."""
    stack, ssm = cloud.stack(), cloud.client("ssm")
    parameter = resource("AWS::SSM::Parameter", Name=unique(), Type="String", Tags={"a": "b"})
    for value in ("before", "after"):
        parameter["Properties"]["Value"] = value
        name = stack.put_one(parameter)
    found = ssm.get_parameter(Name=name)["Parameter"]
    tags = ssm.list_tags_for_resource(ResourceType="Parameter", ResourceId=name)["TagList"]
    return (found["Value"], found["Version"], tags) == ("after", 2, [{"Key": "a", "Value": "b"}])


@probe("cloudformation.unknown-types-are-refused")
def _unknown_types(cloud: ProbedCloud) -> Any:
    return error_code(cloud.stack().put, resources={"R": resource("AWS::Nothing::Nothing")}) == "ValidationError"


@probe("cloudformation.failures-name-the-resource")
def _failures(cloud: ProbedCloud) -> Any:
    try:
        cloud.stack().put({"Wrong": BAD_POLICY})
    except Exception as error:
        return "Wrong (AWS::IAM::ManagedPolicy)" in str(error)
    return False


@probe("cloudformation.updates-follow-references")
def _references(cloud: ProbedCloud) -> Any:
    """A parameter of Parameter Store follows the id of a network that is replaced."""
    stack = cloud.stack()
    parameter = resource("AWS::SSM::Parameter", Name=unique(), Type="String", Value={"Ref": "Vpc"})

    def is_current(cidr: str) -> bool:
        resources = {"Vpc": resource("AWS::EC2::VPC", CidrBlock=cidr), "P": parameter}
        vpc = stack.put(resources, {"Id": {"Ref": "Vpc"}})["Id"]
        stored = cloud.client("ssm").get_parameter(Name=parameter["Properties"]["Name"])["Parameter"]["Value"]
        [described] = cloud.client("ec2").describe_vpcs(VpcIds=[vpc])["Vpcs"]
        return (stored, described["CidrBlock"]) == (vpc, cidr)

    return is_current("10.0.0.0/16") and is_current("10.1.0.0/16")


@probe("cloudformation.deletions-follow-dependencies")
def _deletion_order(cloud: ProbedCloud) -> Any:
    """A resource that its policy retains is still there after the deletion of its stack."""
    stack, sns = cloud.stack(), cloud.client("sns")
    arn = stack.put_one({"Type": "AWS::SNS::Topic", "DeletionPolicy": "RetainExceptOnCreate", "Properties": {}})
    stack.delete()
    return arn in [topic["TopicArn"] for topic in sns.list_topics()["Topics"]]


@probe("cloudformation_stacks.json-is-parsed-as-json")
def _json(_: ProbedCloud) -> Any:
    return "yaml" not in Stack.parse_template.__code__.co_names


def _exporting(stack: Any, value: str) -> dict[str, Any]:
    export = {"Out": {"Value": value, "Export": {"Name": stack.name}}}
    return {"resources": {"T": resource("AWS::SNS::Topic")}, "Outputs": export}


def _import(cloud: ProbedCloud, exporting: Any) -> Any:
    importing = cloud.stack()
    value = {"Fn::ImportValue": exporting.name}
    importing.put({"P": resource("AWS::SSM::Parameter", Name=unique(), Type="String", Value=value)})
    return importing


@probe("cloudformation_stacks.outputs-of-other-stacks")
def _outputs(cloud: ProbedCloud) -> Any:
    first, parameter = cloud.stack(), unique()
    first.put({"T": resource("AWS::SNS::Topic")}, {"Out": "a value"})
    value = {"Fn::GetStackOutput": {"StackName": first.name, "OutputName": "Out"}}
    cloud.stack().put({"P": resource("AWS::SSM::Parameter", Name=parameter, Type="String", Value=value)})
    return cloud.client("ssm").get_parameter(Name=parameter)["Parameter"]["Value"] == "a value"


@probe("cloudformation_stacks.failed-creations-are-undone")
def _undone(cloud: ProbedCloud) -> Any:
    stack, name = cloud.stack(), unique()
    error_code(stack.put, resources={"T": resource("AWS::SNS::Topic", TopicName=name), "Wrong": BAD_POLICY})
    topics = [topic["TopicArn"] for topic in cloud.client("sns").list_topics()["Topics"]]
    stacks = [one["StackName"] for one in cloud.client("cloudformation").describe_stacks()["Stacks"]]
    return not any(arn.endswith(name) for arn in topics) and stack.name not in stacks


@probe("cloudformation_stacks.updates-are-whole")
def _whole_updates(cloud: ProbedCloud) -> Any:
    exporting = cloud.stack()
    exporting.put(**_exporting(exporting, "one"))
    _import(cloud, exporting)
    refused = error_code(exporting.put, **_exporting(exporting, "two"))
    exports = {one["Name"]: one["Value"] for one in cloud.client("cloudformation").list_exports()["Exports"]}
    return refused == "ValidationError" and exports[exporting.name] == "one"


@probe("cloudformation_stacks.exports-in-use-are-kept")
def _exports_in_use(cloud: ProbedCloud) -> Any:
    exporting = cloud.stack()
    exporting.put(**_exporting(exporting, "one"))
    _import(cloud, exporting)
    return error_code(exporting.delete) == "ValidationError"


@probe("cloudformation_stacks.descriptions-create-nothing")
def _descriptions(_: ProbedCloud) -> Any:
    """A stack that is being created has no outputs, whose values would create its resources."""

    creating = Mock(status="CREATE_IN_PROGRESS", output_map={"Out": "a value that creates a resource"})
    return Stack.outputs.fget(creating) is None


@probe("cloudformation_stacks.previous-parameters-are-names")
def _passed_parameters(cloud: ProbedCloud) -> Any:
    cloudformation, name = cloud.client("cloudformation"), unique()
    cloud.client("ssm").put_parameter(Name=name, Value="v", Type="String")
    declared = {"P": {"Type": "AWS::SSM::Parameter::Value<String>", "Default": name}}
    template = {"Parameters": declared, "Resources": {"T": resource("AWS::SNS::Topic")}}
    cloudformation.create_stack(StackName=name, TemplateBody=json.dumps(template))
    changed = {**template, "Resources": {**template["Resources"], "Q": resource("AWS::SQS::Queue")}}
    change_set = {"StackName": name, "ChangeSetName": "probe"}
    cloudformation.create_change_set(
        **change_set,
        ChangeSetType="UPDATE",
        TemplateBody=json.dumps(changed),
        Parameters=[{"ParameterKey": "P", "UsePreviousValue": True}],
    )
    return not error_code(cloudformation.execute_change_set, **change_set)


def _change_set(cloud: ProbedCloud, resources: dict[str, Any]) -> tuple[Any, str]:
    """Create a change set that creates a stack; return the client and the name of both."""
    cloudformation, name = cloud.client("cloudformation"), unique()
    cloudformation.create_change_set(
        StackName=name, ChangeSetName=name, ChangeSetType="CREATE", TemplateBody=json.dumps({"Resources": resources})
    )
    return cloudformation, name


@probe("cloudformation_change_sets.executed-as-operations")
def _executed(cloud: ProbedCloud) -> Any:
    topic = unique()
    resources = {"T": resource("AWS::SNS::Topic", TopicName=topic), "Wrong": BAD_POLICY}
    cloudformation, name = _change_set(cloud, resources)
    refused = error_code(cloudformation.execute_change_set, ChangeSetName=name, StackName=name)
    topics = [one["TopicArn"] for one in cloud.client("sns").list_topics()["Topics"]]
    return refused == "ValidationError" and not any(arn.endswith(topic) for arn in topics)


@probe("cloudformation_change_sets.found-by-name")
def _found(cloud: ProbedCloud) -> Any:
    cloudformation, name = _change_set(cloud, {"T": resource("AWS::SNS::Topic")})
    by_name = {"StackName": name, "ChangeSetName": name}
    found = error_code(cloudformation.describe_change_set, **by_name)
    deleted = [error_code(cloudformation.delete_change_set, **by_name) for _ in range(2)]
    return (found, deleted, error_code(cloudformation.describe_change_set, **by_name)) == (
        "",
        ["", ""],
        "ChangeSetNotFound",
    )
