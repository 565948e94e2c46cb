"""`app.cosmosBatch.network`: the VPC in which workers run."""

from collections import Counter
from ipaddress import IPv4Network
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from cosmos_batch.contract.base import Model

# Docker's bridge on every ECS host: a VPC that overlaps it cannot be reached from a container.
DOCKER_BRIDGE = IPv4Network("172.17.0.0/16")
PREFIX_LENGTHS = range(16, 25)  # AWS makes no VPC larger than a /16, and few hosts fit into less than a /24
PUBLIC_PREFIX_LENGTH = 26  # private mode makes a subnet of this size in each zone for its NAT gateway
SMALLEST_SUBNET = 16  # addresses: AWS makes none smaller than a /28
# The number of zones if the configuration names no zones and no `zoneCount`. GPU capacity is scarce, so there are
# three zones if a VPC that was made for two keeps its subnets: private subnets have the same networks with two zones
# and with three if the prefix of the VPC's network is at most this long. In the other modes two zones fill the network.
FEW_ZONES, MANY_ZONES = 2, 3
LONGEST_PREFIX_OF_MANY_ZONES = 22

NetworkMode = Literal["private", "public", "vpcOnly"]
InterfaceEndpoint = Literal[
    "ecr.api", "ecr.dkr", "ecs", "ecs-agent", "ecs-telemetry", "logs", "sqs", "states", "secretsmanager"
]


def _network(text: str) -> str:
    try:
        network = IPv4Network(text)
    except ValueError as error:
        raise ValueError(f"not an IPv4 network such as 10.0.0.0/16: {error}") from error
    if str(network) != text:
        raise ValueError(f"not as AWS writes an IPv4 network; write {network}")
    return text


def _no_twins(names: list[str]) -> list[str]:
    twins = [name for name, times in Counter(names).items() if times > 1]
    if twins:
        raise ValueError(f"names {twins[0]} more than once; name each once")
    return names


Cidr = Annotated[str, AfterValidator(_network)]
Zone = Annotated[str, Field(pattern=r"^[a-z]{2}(-[a-z]+)+-\d[a-z]$")]


class Subnet(Model):
    """A subnet of an existing VPC. All fields are required, because synthesis makes no lookups in the account."""

    subnet_id: str = Field(pattern=r"^subnet-[0-9a-f]+$", description="Such as subnet-0a1b2c3d4e5f67890")
    availability_zone: Zone = Field(description="The subnet's zone, such as us-east-1a")
    route_table_id: str = Field(
        pattern=r"^rtb-[0-9a-f]+$", description="Of the subnet; the S3 gateway endpoint is put into it"
    )


class ExistingVpc(Model):
    """An existing VPC to deploy into: its subnets, and which endpoints are to be made in it."""

    vpc_id: str = Field(pattern=r"^vpc-[0-9a-f]+$", description="Such as vpc-0a1b2c3d4e5f67890")
    cidr: Cidr = Field(description="Its IPv4 network")
    subnets: list[Subnet] = Field(
        min_length=1,
        description="Where workers run, one or more in each zone; the zone's first also holds the EFS mount target and "
        "the interface endpoints",
    )
    s3_gateway_endpoint: bool = Field(
        default=True, description="Make the S3 gateway endpoint; false where these route tables have one"
    )
    interface_endpoints: Annotated[list[InterfaceEndpoint], AfterValidator(_no_twins)] = Field(
        default_factory=list, description="With mode vpcOnly: the interface endpoints that the VPC lacks"
    )
    dynamodb_gateway_endpoint: bool = Field(
        default=False, description="With mode vpcOnly: make the DynamoDB gateway endpoint"
    )

    @field_validator("subnets")
    @classmethod
    def _each_once(cls, subnets: list[Subnet]) -> list[Subnet]:
        _no_twins([subnet.subnet_id for subnet in subnets])
        return subnets


class NetworkSettings(Model):
    """Settings of the VPC that is created, or of an existing one."""

    mode: NetworkMode = Field(
        default="private",
        description="'private': workers in private subnets, out by NAT. 'public': workers in public subnets, no NAT. "
        "'vpcOnly': no way out at all, AWS by endpoints; models and images must be in place",
    )
    cidr: Cidr = Field(default="10.0.0.0/16", description="IPv4 network of the VPC that is made")
    availability_zones: Annotated[list[Zone], AfterValidator(_no_twins)] = Field(
        default_factory=list,
        description="Zones of the VPC that is made, such as us-east-1a; by default the first `zoneCount` of the "
        "region. Few zones have g6e or p5",
    )
    zone_count: int | None = Field(
        default=None,
        ge=1,
        le=6,
        description="Zones of the VPC that is made, where `availabilityZones` names none: by default three in mode "
        "'private', two in the others and in a network smaller than a /22. Take 2 where your account sees two, as "
        "in us-west-1",
    )
    reserved_cidrs: list[Cidr] = Field(
        default_factory=list, description="Networks that the VPC must not overlap, such as those it will be peered with"
    )
    existing: ExistingVpc | None = Field(default=None, description="Use this VPC and make none")

    @property
    def interface_endpoints(self) -> list[InterfaceEndpoint]:
        """Return the interface endpoints to create."""
        if self.mode != "vpcOnly":
            return []
        if self.existing is not None:
            return self.existing.interface_endpoints
        # A worker without a way out downloads nothing, so it needs no token: no endpoint of secretsmanager.
        return ["ecr.api", "ecr.dkr", "ecs", "ecs-agent", "ecs-telemetry", "logs", "sqs", "states"]

    @property
    def zones(self) -> int:
        """Return the number of Availability Zones of the VPC that is created."""
        if self.availability_zones or self.zone_count is not None:
            return self.zone_count or len(self.availability_zones)
        small = IPv4Network(self.cidr).prefixlen > LONGEST_PREFIX_OF_MANY_ZONES
        return FEW_ZONES if self.mode != "private" or small else MANY_ZONES

    @property
    def reaches_secrets(self) -> bool:
        """Return whether workers can reach Secrets Manager.

        An existing VPC may have an endpoint that is not configured.
        """
        return self.mode != "vpcOnly" or self.existing is not None

    @property
    def dynamodb_gateway_endpoint(self) -> bool:
        """Return whether to create the gateway endpoint of DynamoDB."""
        return self.mode == "vpcOnly" and (self.existing is None or self.existing.dynamodb_gateway_endpoint)

    @model_validator(mode="after")
    def _no_clash(self) -> Self:
        field, cidr = ("existing.cidr", self.existing.cidr) if self.existing else ("cidr", self.cidr)
        network = IPv4Network(cidr)
        if self.existing is None and network.prefixlen not in PREFIX_LENGTHS:
            raise ValueError(f"{field}: {cidr} is no network of a VPC; allowed: /16 to /24")
        for reserved in [DOCKER_BRIDGE, *map(IPv4Network, self.reserved_cidrs)]:
            if network.overlaps(reserved):
                owner = "Docker's bridge on every host" if reserved == DOCKER_BRIDGE else "one of reservedCidrs"
                raise ValueError(f"{field}: {cidr} overlaps {reserved}, {owner}; choose another network")
        return self

    @model_validator(mode="after")
    def _room_for_subnets(self) -> Self:
        if self.existing is not None:
            return self
        network, zones = IPv4Network(self.cidr), self.zones
        public = 2 ** (32 - PUBLIC_PREFIX_LENGTH) if self.mode == "private" else 0
        if network.num_addresses // zones < public + SMALLEST_SUBNET:
            raise ValueError(
                f"cidr: {self.cidr} has no room for the subnets of {zones} zones in mode {self.mode!r}; "
                "choose a larger network or fewer availabilityZones"
            )
        return self

    @model_validator(mode="after")
    def _zones_are_said_once(self) -> Self:
        if self.zone_count is not None and self.availability_zones:
            raise ValueError("zoneCount: is given together with availabilityZones; remove one of them")
        return self

    @model_validator(mode="after")
    def _own_or_existing(self) -> Self:
        if self.existing is None:
            return self
        of_new_vpc = [name for name in ("cidr", "availability_zones", "zone_count") if name in self.model_fields_set]
        if of_new_vpc:
            alias = type(self).model_fields[of_new_vpc[0]].alias
            raise ValueError(f"{alias}: is for a VPC that is made, and `existing` names one; remove one of the two")
        if self.mode != "vpcOnly" and (self.existing.interface_endpoints or self.existing.dynamodb_gateway_endpoint):
            raise ValueError(f"existing.interfaceEndpoints: are for mode 'vpcOnly', and mode is {self.mode!r}")
        return self
