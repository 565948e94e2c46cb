"""Who did what: the access logs of our buckets, and what security groups turned away."""

from collections.abc import Mapping

from aws_cdk import Aws, Duration
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.constructs.private_bucket import PrivateBucket

KEEP = Duration.days(90)
ACCESS, FLOWS = "access/", f"AWSLogs/{Aws.ACCOUNT_ID}/vpcflowlogs/"  # the second by AWS


class LogBucket(PrivateBucket):
    """Written by S3 and by the VPC's flow log, for 90 days; kept when its stack goes.

    S3 cannot write access logs to a bucket with a customer key: AWS's keys encrypt this one.
    """

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id, lifecycle=[s3.LifecycleRule(expiration=KEEP)])
        self._allow("logging.s3.amazonaws.com", "s3:PutObject", self.arn_for_objects(f"{ACCESS}*"))

    def keep_accesses(self, bucket: s3.Bucket) -> None:
        """Have S3 log here who reads and writes a bucket. CDK's own way would be an ACL, which new buckets refuse."""
        resource = bucket.node.default_child
        assert isinstance(resource, s3.CfnBucket)
        resource.logging_configuration = s3.CfnBucket.LoggingConfigurationProperty(
            destination_bucket_name=self.bucket_name, log_file_prefix=f"{ACCESS}{bucket.node.id}/"
        )
        assert self.policy is not None
        bucket.node.add_dependency(self.policy)

    def keep_refusals(self, vpc: ec2.IVpc) -> None:
        """Log what security groups turned away: of what they admitted, each service has a record of its own."""
        service = "delivery.logs.amazonaws.com"
        self._allow(
            service,
            "s3:PutObject",
            self.arn_for_objects(f"{FLOWS}*"),
            {"s3:x-amz-acl": "bucket-owner-full-control"},
        )
        self._allow(service, "s3:GetBucketAcl", self.bucket_arn)
        flows = ec2.CfnFlowLog(
            self,
            "Refusals",
            resource_type="VPC",
            resource_id=vpc.vpc_id,
            traffic_type="REJECT",
            log_destination_type="s3",
            log_destination=self.bucket_arn,
        )
        assert self.policy is not None
        flows.node.add_dependency(self.policy)

    def _allow(self, service: str, action: str, resource: str, condition: Mapping[str, str] | None = None) -> None:
        self.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal(service)],
                actions=[action],
                resources=[resource],
                conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID, **(condition or {})}},
            )
        )
