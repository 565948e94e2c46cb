"""The smallest networks: the smallest that the app creates, and an existing VPC with two subnets in one zone."""

import json
from typing import Any

import pytest

from cosmos_batch.contract.network import NetworkSettings
from cosmos_batch.planning.configuration import parse_config
from infra.nodejs import choose_nodejs
from infra.synth import synthesize
from tests.infra.assembly import Assembly, Resource, endpoint_service
from tests.infra.examples import FOLDER

FIRST, TWIN, OTHER = (f"subnet-0123456789abcdef{number}" for number in range(3))
ZONES = {FIRST: "us-east-1a", TWIN: "us-east-1a", OTHER: "us-east-1b"}


@pytest.fixture(scope="module")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    """Provide the app with a VPC that has no internet access and one configured endpoint."""
    config = json.loads((FOLDER / "existing-vpc.json").read_text(encoding="utf-8"))
    network = config["app"]["cosmosBatch"]["network"]
    network["mode"] = "vpcOnly"
    network["existing"] |= {
        "subnets": [
            {"subnetId": subnet, "availabilityZone": zone, "routeTableId": "rtb-0123456789abcdef0"}
            for subnet, zone in ZONES.items()
        ],
        "interfaceEndpoints": ["sqs"],
        "s3GatewayEndpoint": False,
    }
    return Assembly(synthesize(parse_config(json.dumps(config)), tmp_path_factory.mktemp("cdk") / "cdk.out"))


def test_only_the_configured_endpoints_are_created(assembly: Assembly) -> None:
    endpoints = assembly.properties("Network", "EC2::VPCEndpoint")
    assert [endpoint_service(endpoint) for endpoint in endpoints] == ["sqs"]


def test_one_subnet_of_each_zone_has_the_endpoint_and_a_mount_target(assembly: Assembly) -> None:
    assert assembly.one("Network", "EC2::VPCEndpoint")["SubnetIds"] == [FIRST, OTHER]
    targets = assembly.properties("Storage", "EFS::MountTarget")
    assert [target["SubnetId"] for target in targets] == [FIRST, OTHER]


def test_workers_run_in_every_subnet(assembly: Assembly) -> None:
    environments = assembly.properties("Pipelines", "Batch::ComputeEnvironment")
    assert environments
    for environment in environments:
        assert environment["ComputeResources"]["Subnets"] == [FIRST, TWIN, OTHER]


def resources(settings: dict[str, Any], kind: str) -> list[Resource]:
    """Return the properties of the resources of one type, from the network's stack alone."""
    choose_nodejs()
    from aws_cdk import App
    from aws_cdk.assertions import Template

    from infra.stacks.network import NetworkStack

    network = NetworkStack(App(), "Network", settings=NetworkSettings.model_validate(settings))
    return [resource["Properties"] for resource in Template.from_stack(network).find_resources(f"AWS::{kind}").values()]


def test_a_route_table_that_subnets_share_has_the_s3_endpoint_once() -> None:
    network = json.loads((FOLDER / "existing-vpc.json").read_text(encoding="utf-8"))["app"]["cosmosBatch"]["network"]
    for subnet in network["existing"]["subnets"]:
        subnet["routeTableId"] = "rtb-0123456789abcdef0"
    (endpoint,) = resources(network, "EC2::VPCEndpoint")
    assert endpoint["RouteTableIds"] == ["rtb-0123456789abcdef0"]


@pytest.mark.parametrize(("mode", "cidr", "zones"), [("private", 24, 3), ("private", 23, 6), ("vpcOnly", 24, 6)])
def test_the_smallest_network_that_is_taken_holds_its_subnets(mode: str, cidr: int, zones: int) -> None:
    names = [f"us-east-1{letter}" for letter in "abcdef"[:zones]]
    settings = {"mode": mode, "cidr": f"10.0.0.0/{cidr}", "availabilityZones": names}
    assert len(resources(settings, "EC2::Subnet")) == zones * (2 if mode == "private" else 1)


def networks(cidr: str, zones: int | None = None, mode: str = "private") -> list[str]:
    """Return the networks of the workers' subnets, in the order of their zones."""
    settings = {"mode": mode, "cidr": cidr} | ({"zoneCount": zones} if zones else {})
    subnets = resources(settings, "EC2::Subnet")
    of_nat = {"Key": "aws-cdk:subnet-type", "Value": "Public"}
    return [subnet["CidrBlock"] for subnet in subnets if mode != "private" or of_nat not in subnet["Tags"]]


@pytest.mark.parametrize("prefix", range(16, 23))
def test_a_third_zone_leaves_the_subnets_of_a_vpc_that_was_made_for_two_as_they_are(prefix: int) -> None:
    cidr = f"10.0.0.0/{prefix}"
    three = networks(cidr)
    assert len(three) == 3 and three[:2] == networks(cidr, 2)


@pytest.mark.parametrize(("mode", "prefix"), [("private", 23), ("private", 24), ("public", 16), ("vpcOnly", 16)])
def test_where_a_third_zone_would_replace_subnets_there_are_two_unless_three_are_asked_for(
    mode: str, prefix: int
) -> None:
    cidr = f"10.0.0.0/{prefix}"
    two, three = networks(cidr, mode=mode), networks(cidr, 3, mode)
    assert len(two) == 2 and len(three) == 3 and three[:2] != two
