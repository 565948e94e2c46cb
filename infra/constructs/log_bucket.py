"""The bucket for access logs of our buckets, and for traffic that the VPC's security groups rejected."""

from collections.abc import Mapping

from aws_cdk import Aws, Duration
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.constructs.private_bucket import PrivateBucket

KEEP = Duration.days(90)
ACCESS, FLOWS = "access/", f"AWSLogs/{Aws.ACCOUNT_ID}/vpcflowlogs/"  # AWS chooses the prefix of flow logs


class LogBucket(PrivateBucket):
    """A bucket that S3 and the VPC's flow log write to. Logs are deleted after 90 days.

    It is encrypted with S3's own keys, for S3 cannot write access logs to a bucket with a customer key.
    """

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id, lifecycle=[s3.LifecycleRule(expiration=KEEP)])
        self._allow("logging.s3.amazonaws.com", "s3:PutObject", self.arn_for_objects(f"{ACCESS}*"))

    def log_accesses(self, bucket: s3.Bucket) -> None:
        """Let S3 log here who reads and writes a bucket. CDK's own way uses an ACL, which new buckets do not allow."""
        resource = bucket.node.default_child
        assert isinstance(resource, s3.CfnBucket)
        resource.logging_configuration = s3.CfnBucket.LoggingConfigurationProperty(
            destination_bucket_name=self.bucket_name, log_file_prefix=f"{ACCESS}{bucket.node.id}/"
        )
        assert self.policy is not None
        bucket.node.add_dependency(self.policy)

    def log_rejected_traffic(self, vpc: ec2.IVpc) -> None:
        """Log the traffic that security groups reject. Each service logs the accepted traffic itself."""
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
