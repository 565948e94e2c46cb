"""What `docs/changing.md` says cannot be changed is what CloudFormation would have to replace, and cannot.

cfn-lint has CloudFormation's own schemas, which say which properties of a type are set when a resource is created.
"""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

from cosmos_batch.contract.network import NetworkSettings
from cosmos_batch.planning.configuration import parse_config
from infra.nodejs import choose_nodejs
from infra.synth import synthesize
from tests.infra.assembly import Assembly, Resource
from tests.infra.examples import FOLDER, example

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "changing.md").read_text(encoding="utf-8")
ARN = "arn:aws:kms:us-east-1:123456789012:key/01234567-89ab-cdef-0123-456789abcdef"
ZONES = ["us-east-1a", "us-east-1b", "us-east-1c"]
ROWS = {
    "app.cosmosBatch.network.mode",
    "app.cosmosBatch.network.availabilityZones",
    "app.cosmosBatch.network.zoneCount",
    "app.cosmosBatch.storage.kmsKey",
}

Resources = dict[str, Resource]


@cache
def set_at_creation(kind: str) -> frozenset[str]:
    """Return the properties of a type for which CloudFormation replaces a resource; not those within a property."""
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", kind).schema
    places = [place.split("/")[2:] for place in schema.get("createOnlyProperties", [])]
    return frozenset(place[0] for place in places if len(place) == 1)


def replaced(before: Resources, after: Resources) -> Resources:
    """Return the resources that an update from one template to another replaces."""
    return {
        name: resource
        for name, resource in after.items()
        if name in before
        and any(
            resource["Properties"].get(name_of_property) != before[name]["Properties"].get(name_of_property)
            for name_of_property in set_at_creation(resource["Type"])
        )
    }


def network(**settings: Any) -> Resources:
    """Return the VPC and its subnets, from the network's stack alone."""
    choose_nodejs()
    from aws_cdk import App
    from aws_cdk.assertions import Template

    from infra.stacks.network import NetworkStack

    template = Template.from_stack(NetworkStack(App(), "Network", settings=NetworkSettings.model_validate(settings)))
    return {**template.find_resources("AWS::EC2::VPC"), **template.find_resources("AWS::EC2::Subnet")}


def test_each_row_of_the_page_has_a_test_here() -> None:
    rows = PAGE.partition("## What cannot be changed")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(app\.[\w.]+)`", rows, re.MULTILINE)) == ROWS


@pytest.mark.parametrize("key", ["create", ARN])
def test_a_customer_key_would_replace_efs_and_the_image_repositories(key: str, tmp_path: Path) -> None:
    config = json.loads((FOLDER / "reason-only.json").read_text(encoding="utf-8"))
    config["app"]["cosmosBatch"] = {"storage": {"kmsKey": key}}
    before, after = example("reason-only"), Assembly(synthesize(parse_config(json.dumps(config)), tmp_path / "cdk.out"))
    changed = {stack: replaced(resources_of(before, stack), resources_of(after, stack)) for stack in before.templates}
    kinds = {stack: {one["Type"] for one in resources.values()} for stack, resources in changed.items() if resources}
    assert kinds == {"Storage": {"AWS::EFS::FileSystem"}, "Images": {"AWS::ECR::Repository"}}
    # CloudFormation changes no export that is in use, and replaces no resource that has a name of its own.
    (file_system,) = changed["Storage"]
    exported = [output for output in after.templates["Storage"]["Outputs"].values() if "Export" in output]
    assert {"Ref": file_system} in [output["Value"] for output in exported]
    assert any("RepositoryName" in repository["Properties"] for repository in changed["Images"].values())


def resources_of(assembly: Assembly, stack: str) -> Resources:
    """Return the resources of a stack whose types are CloudFormation's."""
    resources: Resources = assembly.templates[stack]["Resources"]
    return {
        name: {"Properties": {}, **one}
        for name, one in resources.items()
        if one["Type"].startswith("AWS::") and one["Type"] != "AWS::CDK::Metadata"
    }


def test_a_replaced_zone_would_replace_subnets_by_others_with_the_same_addresses() -> None:
    """CloudFormation creates the new subnet first, and AWS refuses one that overlaps another."""
    before, after = network(availabilityZones=ZONES), network(availabilityZones=[*ZONES[:2], "us-east-1d"])
    subnets = replaced(before, after)
    assert len(subnets) == 2  # that of the workers, and that of the NAT gateway
    for name, subnet in subnets.items():
        assert subnet["Properties"]["CidrBlock"] == before[name]["Properties"]["CidrBlock"]


def test_a_third_zone_at_the_end_of_the_list_replaces_no_subnet_and_a_fourth_does() -> None:
    two, three, four = (network(availabilityZones=zones) for zones in (ZONES[:2], ZONES, [*ZONES, "us-east-1d"]))
    assert len(three) > len(two) and replaced(two, three) == {}
    assert len(four) > len(three) and replaced(three, four) != {}


@pytest.mark.parametrize("mode", ["public", "vpcOnly"])
def test_another_number_of_zones_would_replace_all_subnets_that_take_the_whole_network(mode: str) -> None:
    before, after = network(mode=mode, zoneCount=2), network(mode=mode, zoneCount=3)
    subnets = [name for name, resource in before.items() if resource["Type"] == "AWS::EC2::Subnet"]
    assert sorted(replaced(before, after)) == sorted(subnets)


def test_another_cidr_would_replace_the_vpc() -> None:
    kinds = {one["Type"] for one in replaced(network(), network(cidr="10.1.0.0/16")).values()}
    assert "AWS::EC2::VPC" in kinds


def test_an_existing_vpc_would_remove_what_other_stacks_import() -> None:
    before, after = (example(name).templates["Network"] for name in ("reason-only", "existing-vpc"))
    exported = {output["Export"]["Name"] for output in before["Outputs"].values() if "Export" in output}
    kept = {output["Export"]["Name"] for output in after.get("Outputs", {}).values() if "Export" in output}
    imported = json.dumps([example("reason-only").templates[stack] for stack in ("Storage", "Pipelines")])
    assert {name for name in exported - kept if f'"Fn::ImportValue": "{name}"' in imported}
