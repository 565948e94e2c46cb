"""The S3 bucket that all stores use."""

from collections.abc import Sequence

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_s3 as s3
from constructs import Construct


class PrivateBucket(s3.Bucket):
    """A bucket that is private, encrypted and TLS only, and is kept when its stack is deleted."""

    def __init__(
        self, scope: Construct, construct_id: str, lifecycle: Sequence[s3.LifecycleRule] = (), versioned: bool = False
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            versioned=versioned,
            # The parts of an upload that a crashed worker left incomplete are invisible, but cost money.
            lifecycle_rules=[s3.LifecycleRule(abort_incomplete_multipart_upload_after=Duration.days(1)), *lifecycle],
            removal_policy=RemovalPolicy.RETAIN,
        )

    def send_events(self) -> None:
        """Let S3 send EventBridge an event for every object.

        This sets the bucket's own property; CDK's `event_bridge_enabled=True` would deploy a Lambda function for it.
        """
        bucket = self.node.default_child
        assert isinstance(bucket, s3.CfnBucket)
        bucket.notification_configuration = s3.CfnBucket.NotificationConfigurationProperty(
            event_bridge_configuration=s3.CfnBucket.EventBridgeConfigurationProperty(event_bridge_enabled=True)
        )
