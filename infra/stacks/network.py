"""Where workers run, and who may talk to whom."""

from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

NFS = 2049


class NetworkStack(Stack):
    """A VPC in two availability zones: workers in private subnets, one NAT gateway, S3 without it.

    Weights come through the S3 gateway endpoint; by the NAT gateway they would cost $0.045 per GB.
    """

    def __init__(self, scope: Construct, construct_id: str, **kwargs: Any) -> None:
        super().__init__(scope, construct_id, **kwargs)
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            max_azs=2,
            nat_gateways=1,
            gateway_endpoints={"S3": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.S3)},
        )
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
