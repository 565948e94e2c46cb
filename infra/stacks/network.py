"""The stack with the VPC, its endpoints, and the security groups."""

from collections.abc import Sequence
from typing import Any

from aws_cdk import Fn, Stack
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from cosmos_batch.contract.network import (
    PUBLIC_PREFIX_LENGTH,
    ExistingVpc,
    NetworkMode,
    NetworkSettings,
)
from infra.constructs.vpc_endpoints import GatewayEndpoint, InterfaceEndpoints, dynamodb_statements, s3_statements

NFS = 2049
SUBNET_TYPES: dict[NetworkMode, ec2.SubnetType] = {
    "private": ec2.SubnetType.PRIVATE_WITH_EGRESS,
    "public": ec2.SubnetType.PUBLIC,
    "vpcOnly": ec2.SubnetType.PRIVATE_ISOLATED,
}


class NetworkStack(Stack):
    """A VPC of our own or an existing one, with a gateway endpoint for S3: a NAT gateway costs $0.045 per GB."""

    def __init__(self, scope: Construct, construct_id: str, settings: NetworkSettings, **kwargs: Any) -> None:
        super().__init__(scope, construct_id, **kwargs)
        self.settings = settings
        existing = settings.existing
        self.vpc: ec2.IVpc = self._make_vpc() if existing is None else self._use_vpc(existing)
        subnets = _named_subnets(self, existing) if existing else self._own_subnets()
        self.worker_subnets = ec2.SubnetSelection(subnets=subnets)
        # EFS allows one mount target in each zone, and an interface endpoint one subnet.
        self.zone_subnets = ec2.SubnetSelection(subnets=_first_of_each_zone(subnets))
        self.worker_group = ec2.SecurityGroup(
            self, "WorkerGroup", vpc=self.vpc, description="Workers: they call out, nothing calls them"
        )
        self.file_system_group = ec2.SecurityGroup(
            self,
            "FileSystemGroup",
            vpc=self.vpc,
            description="Mount targets of the model cache",
            allow_all_outbound=False,
        )
        self.file_system_group.add_ingress_rule(self.worker_group, ec2.Port.tcp(NFS), "NFS from workers alone")
        self._add_endpoints()

    def _make_vpc(self) -> ec2.Vpc:
        mode = self.settings.mode
        # Not `max_azs`, which would give two zones at most: CDK does not know how many zones an unknown region has.
        first = [Fn.select(number, Fn.get_azs()) for number in range(self.settings.zones)]
        subnets = [ec2.SubnetConfiguration(name=_subnet_name(mode), subnet_type=SUBNET_TYPES[mode])]
        if mode == "private":
            public = ec2.SubnetConfiguration(
                name="Public",
                subnet_type=ec2.SubnetType.PUBLIC,
                cidr_mask=PUBLIC_PREFIX_LENGTH,
                map_public_ip_on_launch=False,  # only the NAT gateway is there, which has an address of its own
            )
            subnets.insert(0, public)
        return ec2.Vpc(
            self,
            "Vpc",
            ip_addresses=ec2.IpAddresses.cidr(self.settings.cidr),
            availability_zones=self.settings.availability_zones or first,
            nat_gateways=1 if mode == "private" else 0,
            subnet_configuration=subnets,
            restrict_default_security_group=False,  # CDK would deploy a function for it; the group is not used
        )

    def _use_vpc(self, existing: ExistingVpc) -> ec2.IVpc:
        return ec2.Vpc.from_vpc_attributes(
            self,
            "Vpc",
            vpc_id=existing.vpc_id,
            vpc_cidr_block=existing.cidr,
            availability_zones=sorted({subnet.availability_zone for subnet in existing.subnets}),
        )

    def _own_subnets(self) -> list[ec2.ISubnet]:
        return self.vpc.select_subnets(subnet_type=SUBNET_TYPES[self.settings.mode]).subnets

    def _add_endpoints(self) -> None:
        existing = self.settings.existing
        tables = list(dict.fromkeys(subnet.route_table.route_table_id for subnet in self.worker_subnets.subnets or []))
        if existing is None or existing.s3_gateway_endpoint:
            GatewayEndpoint(self, "S3", "s3", self.vpc, tables, s3_statements())
        if self.settings.dynamodb_gateway_endpoint:
            GatewayEndpoint(self, "DynamoDB", "dynamodb", self.vpc, tables, dynamodb_statements())
        if self.settings.interface_endpoints:
            InterfaceEndpoints(
                self,
                "Endpoints",
                self.settings.interface_endpoints,
                self.vpc,
                self.zone_subnets,
                self.worker_group,
            )


def _subnet_name(mode: NetworkMode) -> str:
    return {"private": "Private", "public": "Public", "vpcOnly": "Isolated"}[mode]


def _first_of_each_zone(subnets: Sequence[ec2.ISubnet]) -> list[ec2.ISubnet]:
    # CDK's `one_per_az` has no effect on a selection of named subnets.
    first: dict[str, ec2.ISubnet] = {}
    for subnet in subnets:
        first.setdefault(subnet.availability_zone, subnet)
    return list(first.values())


def _named_subnets(scope: Construct, existing: ExistingVpc) -> list[ec2.ISubnet]:
    return [
        ec2.Subnet.from_subnet_attributes(
            scope,
            subnet.subnet_id,
            subnet_id=subnet.subnet_id,
            availability_zone=subnet.availability_zone,
            route_table_id=subnet.route_table_id,
        )
        for subnet in existing.subnets
    ]
