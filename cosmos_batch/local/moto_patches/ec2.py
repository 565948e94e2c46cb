"""Patches of moto's EC2: the resources of a template have tags and can be deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moto.core.common_models import CloudFormationModel
from moto.ec2.models.core import TaggedEC2Resource
from moto.ec2.models.elastic_ip_addresses import ElasticAddress
from moto.ec2.models.internet_gateways import InternetGateway
from moto.ec2.models.nat_gateways import NatGateway
from moto.ec2.models.route_tables import RouteTable
from moto.ec2.models.vpcs import VPCEndPoint

from cosmos_batch.local import backends
from cosmos_batch.local.cloudformation.simulated_type import Properties
from cosmos_batch.local.moto_patches.registry import RESOURCE_PAGES, patch, replace
from cosmos_batch.local.moto_patches.resources import fix_properties, policy_as_text

_TAGS_PAGE = f"{RESOURCE_PAGES}aws-properties-resource-tags.html"


@patch(
    "ec2.tags-of-templates",
    brings="Every EC2 resource of a template has its tags.",
    moto="Drops the tags of some types.",
    source=_TAGS_PAGE,
)
def _tag_created_resources() -> None:
    for cls in CloudFormationModel.__subclasses__():
        if issubclass(cls, TaggedEC2Resource):
            _tag_when_created(cls)


@patch(
    "ec2.stacks-delete-what-they-made",
    brings="A stack deletes its addresses, gateways, route tables and endpoints.",
    moto="Leaves them.",
    source="https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_DeleteStack.html",
)
def _delete_resources() -> None:
    ec2 = backends.ec2
    deletions: dict[Any, Callable[[Any], Any]] = {
        ElasticAddress: lambda self: ec2().release_address(allocation_id=self.allocation_id),
        NatGateway: lambda self: ec2().delete_nat_gateway(self.id),
        InternetGateway: lambda self: ec2().delete_internet_gateway(self.id),
        RouteTable: _delete_route_table,
        VPCEndPoint: lambda self: ec2().delete_vpc_endpoints([self.id]),
    }
    for cls, delete in deletions.items():
        replace(cls, "delete", lambda self, *_, delete=delete: delete(self))


@patch(
    "ec2.endpoint-policies-are-json",
    brings="The policy of an endpoint that a template gives as an object is JSON.",
    moto="Keeps the text of a Python dictionary.",
    source=f"{RESOURCE_PAGES}aws-resource-ec2-vpcendpoint.html",
)
def _write_endpoint_policies() -> None:
    fix_properties(VPCEndPoint, policy_as_text("PolicyDocument"))


def _tag_when_created(cls: Any) -> None:
    original = cls.create_from_cloudformation_json.__func__

    def create(cls: Any, resource_name: str, cloudformation_json: Any, *args: Any, **kwargs: Any) -> Any:
        properties = dict(cloudformation_json.get("Properties") or {})
        resource = original(cls, resource_name, cloudformation_json, *args, **kwargs)
        resource.add_tags(_tags(properties))
        return resource

    replace(cls, "create_from_cloudformation_json", classmethod(create))


def retag(resource: Any, before: Properties, after: Properties) -> bool:
    """Change the tags of a resource if nothing else about it changed; return whether nothing else did."""
    others = [{name: value for name, value in each.items() if name != "Tags"} for each in (before, after)]
    if not isinstance(resource, TaggedEC2Resource) or others[0] != others[1]:
        return False
    gone = _tags(before).keys() - _tags(after).keys()
    backends.ec2().delete_tags([resource.id], dict.fromkeys(gone))
    resource.add_tags(_tags(after))
    return True


def _tags(properties: Properties) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in properties.get("Tags", [])}


def _delete_route_table(table: RouteTable) -> None:
    table.associations.clear()  # moto refuses to delete a table with associations.
    table.ec2_backend.delete_route_table(table.id)
