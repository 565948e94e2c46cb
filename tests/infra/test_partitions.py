"""Templates and code also work in GovCloud and in China."""

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from cosmos_batch.contract.network import InterfaceEndpoint, NetworkSettings
from infra.nodejs import choose_nodejs
from tests.infra.examples import NAMES, example

ROOT = Path(__file__).resolve().parents[2]
# The local cloud plays us-east-1 of the first partition.
CODE = [
    path
    for folder in ("lambdas", "cosmos_batch", "infra", "scripts")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if "local" not in path.relative_to(ROOT).parts
]
PARTITIONS = {
    "aws": ("us-west-2", "amazonaws.com"),
    "aws-us-gov": ("us-gov-west-1", "amazonaws.com"),
    "aws-cn": ("cn-north-1", "amazonaws.com.cn"),
}
# Names that are the same in every partition: service principals as IAM writes them, also in the paths of their roles.
SAME_EVERYWHERE = re.compile(r"^[a-z0-9.-]+\.amazonaws\.com$|:role/aws-service-role/")
EXISTING = {
    "vpcId": "vpc-0123456789abcdef0",
    "cidr": "10.4.0.0/16",
    "subnets": [
        {
            "subnetId": "subnet-0123456789abcdef0",
            "availabilityZone": "cn-north-1a",
            "routeTableId": "rtb-0123456789abcdef0",
        }
    ],
    "interfaceEndpoints": list(get_args(InterfaceEndpoint)),
    "dynamodbGatewayEndpoint": True,
}


def resolved(value: Any, partition: str, conditions: dict[str, Any]) -> Any:
    """Return a template's value as CloudFormation resolves it in that partition; what only a deployment knows stays."""
    region, suffix = PARTITIONS[partition]
    known = {
        "AWS::Partition": partition,
        "AWS::Region": region,
        "AWS::URLSuffix": suffix,
        "AWS::AccountId": "123456789012",
    }
    if isinstance(value, list):
        return [resolved(item, partition, conditions) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"Ref"}:
        return known.get(value["Ref"], value["Ref"])
    if value.keys() == {"Fn::If"}:
        condition, yes, no = value["Fn::If"]
        left, right = resolved(conditions[condition]["Fn::Equals"], partition, conditions)
        return resolved(yes if left == right else no, partition, conditions)
    if value.keys() == {"Fn::Join"}:
        separator, parts = resolved(value["Fn::Join"], partition, conditions)
        return separator.join(map(str, parts)) if isinstance(parts, list) else str(parts)
    return {name: resolved(item, partition, conditions) for name, item in value.items()}


def resolved_template(template: dict[str, Any], partition: str) -> Any:
    return resolved(template, partition, template.get("Conditions", {}))


def texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in texts(item)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("name", NAMES)
def test_no_template_takes_a_partition_for_granted(name: str) -> None:
    assert not [stack for stack, template in example(name).templates.items() if "arn:aws:" in json.dumps(template)]


@pytest.mark.parametrize("path", CODE, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_code_takes_a_partition_for_granted(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "arn:aws:" not in text
    assert not re.search(r"https://[^\s\"']*amazonaws\.com", text)


@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("name", NAMES)
def test_arns_and_addresses_are_those_of_the_partition(name: str, partition: str) -> None:
    _, suffix = PARTITIONS[partition]
    values = texts([resolved_template(template, partition) for template in example(name).templates.values()])
    arns = {text for text in values if text.startswith("arn:")}
    assert arns and all(text.startswith(f"arn:{partition}:") for text in arns)
    addresses = {text for text in values if "amazonaws.com" in text and not SAME_EVERYWHERE.search(text)}
    assert not [text for text in addresses if suffix not in text]
    assert not [text for text in arns if "us-east-1" in text]


@pytest.mark.parametrize("partition", PARTITIONS)
def test_endpoints_have_the_names_that_cdk_knows_for_the_region(partition: str) -> None:
    choose_nodejs()
    from aws_cdk import App, Environment, Stack
    from aws_cdk import aws_ec2 as ec2
    from aws_cdk.assertions import Template

    from infra.stacks.network import NetworkStack

    settings = NetworkSettings.model_validate({"mode": "vpcOnly", "existing": EXISTING})
    network = NetworkStack(App(), "Network", settings=settings)
    template = resolved_template(Template.from_stack(network).to_json(), partition)
    services = {
        resource["Properties"]["ServiceName"]
        for resource in template["Resources"].values()
        if "ServiceName" in resource["Properties"]
    }

    region, _ = PARTITIONS[partition]
    known = Stack(App(), "Known", env=Environment(region=region))
    interfaces = {known.resolve(ec2.InterfaceVpcEndpointAwsService(name).name) for name in get_args(InterfaceEndpoint)}
    gateways = {f"com.amazonaws.{region}.{name}" for name in ("s3", "dynamodb")}
    assert services == interfaces | gateways
    assert any(name.startswith("cn.") for name in services) == (partition == "aws-cn")
