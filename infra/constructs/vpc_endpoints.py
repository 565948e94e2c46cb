"""VPC endpoints, by which workers reach services of AWS without the internet."""

from collections.abc import Sequence

from aws_cdk import Aws, CfnCondition, Fn
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from cosmos_batch.contract.network import InterfaceEndpoint

# Buckets of AWS that are read through the S3 endpoint: the layers of images in ECR, and packages of Amazon Linux.
IMAGE_LAYERS = "prod-{region}-starport-layer-bucket"
PACKAGES = "al2023-repos-{region}-de612dc2"
# ECS documents no policies for the agent's own two endpoints.
WITHOUT_POLICY = ("ecs-agent", "ecs-telemetry")
# The names of some endpoint services have another prefix in China. CDK chooses it only where it knows the region, and
# our stacks can be deployed to any.
PREFIX, PREFIX_IN_CHINA = "com.amazonaws", "cn.com.amazonaws"
OTHERWISE_IN_CHINA = ("ecr.api", "ecr.dkr", "sqs", "states")


class GatewayEndpoint(Construct):
    """A gateway endpoint for S3 or DynamoDB, which is free, in the workers' route tables."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        service: str,
        vpc: ec2.IVpc,
        route_tables: Sequence[str],
        statements: Sequence[iam.PolicyStatement],
    ) -> None:
        super().__init__(scope, construct_id)
        ec2.CfnVPCEndpoint(
            self,
            "Endpoint",
            vpc_endpoint_type="Gateway",
            service_name=f"com.amazonaws.{Aws.REGION}.{service}",
            vpc_id=vpc.vpc_id,
            route_table_ids=list(route_tables),
            policy_document=iam.PolicyDocument(statements=list(statements)),
        )


def s3_statements() -> list[iam.PolicyStatement]:
    """Return the S3 endpoint's policy: all calls by principals of our account, and reads of AWS's own buckets.

    The policy does not check whose bucket is called, because files may lie in buckets of another account.
    """
    aws_buckets = [bucket.format(region=Aws.REGION) for bucket in (IMAGE_LAYERS, PACKAGES)]
    return [
        _of_our_account(["s3:*"]),
        iam.PolicyStatement(
            principals=[iam.AnyPrincipal()],
            actions=["s3:GetObject"],
            resources=[f"arn:{Aws.PARTITION}:s3:::{bucket}/*" for bucket in aws_buckets],
        ),
    ]


def dynamodb_statements() -> list[iam.PolicyStatement]:
    """Return the DynamoDB endpoint's policy: all calls by principals of our account."""
    return [_of_our_account(["dynamodb:*"])]


class InterfaceEndpoints(Construct):
    """Interface endpoints in one subnet of each zone. Each costs about $7.30 a month in each zone."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        services: Sequence[InterfaceEndpoint],
        vpc: ec2.IVpc,
        subnets: ec2.SubnetSelection,
        callers: ec2.ISecurityGroup,
    ) -> None:
        super().__init__(scope, construct_id)
        group = ec2.SecurityGroup(
            self, "Group", vpc=vpc, description="Interface endpoints: workers call them", allow_all_outbound=False
        )
        group.add_ingress_rule(callers, ec2.Port.tcp(443), "HTTPS from workers alone")
        in_china = CfnCondition(self, "InChina", expression=Fn.condition_equals(Aws.PARTITION, "aws-cn"))
        either = Fn.condition_if(in_china.logical_id, PREFIX_IN_CHINA, PREFIX).to_string()
        for service in services:
            prefix = either if service in OTHERWISE_IN_CHINA else PREFIX
            endpoint = ec2.InterfaceVpcEndpoint(
                self,
                service.replace(".", "-"),
                vpc=vpc,
                subnets=subnets,
                service=ec2.InterfaceVpcEndpointAwsService(service, prefix),
                security_groups=[group],
                open=False,  # only the workers' security group may connect
            )
            if service not in WITHOUT_POLICY:
                endpoint.add_to_policy(_of_our_account([f"{service.partition('.')[0]}:*"]))


def _of_our_account(actions: list[str]) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        principals=[iam.AnyPrincipal()],
        actions=actions,
        resources=["*"],
        conditions={"StringEquals": {"aws:PrincipalAccount": Aws.ACCOUNT_ID}},
    )
