"""Simulated types that join parts of a network: rules, routes, attachments. moto can update and delete none of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cosmos_batch.local.cloudformation.simulated_type import Properties, SimulatedType
from cosmos_batch.local.runtime import operator_client


def _client() -> Any:
    return operator_client("ec2")


def _rule(direction: str, other_group: str) -> SimulatedType:
    """Return the type of a rule of a security group; ``direction`` is ``ingress`` or ``egress``."""

    def put(_: str, properties: Properties) -> tuple[str, dict[str, str]]:
        permission: Properties = {"IpProtocol": properties["IpProtocol"]}
        permission |= {name: int(properties[name]) for name in ("FromPort", "ToPort") if name in properties}
        if "CidrIp" in properties:
            permission["IpRanges"] = [{"CidrIp": properties["CidrIp"]}]
        if other_group in properties:
            permission["UserIdGroupPairs"] = [{"GroupId": properties[other_group]}]
        authorize = getattr(_client(), f"authorize_security_group_{direction}")
        answer = authorize(GroupId=properties["GroupId"], IpPermissions=[permission])
        return f"{properties['GroupId']}|{answer['SecurityGroupRules'][0]['SecurityGroupRuleId']}", {}

    def remove(physical_id: str) -> None:
        group, rule = physical_id.split("|")
        revoke = getattr(_client(), f"revoke_security_group_{direction}")
        revoke(GroupId=group, SecurityGroupRuleIds=[rule])

    return SimulatedType(put, remove, replaced_on_change=True)


def _put_route(_: str, properties: Properties) -> tuple[str, dict[str, str]]:
    _client().create_route(**properties)
    return f"{properties['RouteTableId']}|{properties['DestinationCidrBlock']}", {}


def _remove_route(physical_id: str) -> None:
    table, destination = physical_id.split("|")
    _client().delete_route(RouteTableId=table, DestinationCidrBlock=destination)


def _put_association(_: str, properties: Properties) -> tuple[str, dict[str, str]]:
    return _client().associate_route_table(**properties)["AssociationId"], {}


def _put_attachment(_: str, properties: Properties) -> tuple[str, dict[str, str]]:
    _client().attach_internet_gateway(**properties)
    return f"{properties['InternetGatewayId']}|{properties['VpcId']}", {}


def _remove_attachment(physical_id: str) -> None:
    gateway, vpc = physical_id.split("|")
    _client().detach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)


def _put_flow_log(_: str, properties: Properties) -> tuple[str, dict[str, str]]:
    settings = {name: value for name, value in properties.items() if name not in ("ResourceId", "Tags")}
    answer = _client().create_flow_logs(ResourceIds=[properties["ResourceId"]], **settings)
    return answer["FlowLogIds"][0], {}


def _by_id(operation: str, member: str, as_list: bool = False) -> Callable[[str], Any]:
    """Return a function that deletes the resource with one id by an operation of EC2."""
    return lambda physical_id: getattr(_client(), operation)(**{member: [physical_id] if as_list else physical_id})


TYPES = {
    "AWS::EC2::FlowLog": SimulatedType(
        _put_flow_log, _by_id("delete_flow_logs", "FlowLogIds", as_list=True), replaced_on_change=True
    ),
    "AWS::EC2::Route": SimulatedType(_put_route, _remove_route, replaced_on_change=True),
    "AWS::EC2::SecurityGroupEgress": _rule("egress", "DestinationSecurityGroupId"),
    "AWS::EC2::SecurityGroupIngress": _rule("ingress", "SourceSecurityGroupId"),
    "AWS::EC2::SubnetRouteTableAssociation": SimulatedType(
        _put_association, _by_id("disassociate_route_table", "AssociationId"), replaced_on_change=True
    ),
    "AWS::EC2::VPCGatewayAttachment": SimulatedType(_put_attachment, _remove_attachment, replaced_on_change=True),
}
