"""A bucket as all of ours are."""

from collections.abc import Sequence

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_s3 as s3
from constructs import Construct


class PrivateBucket(s3.Bucket):
    """Private, encrypted, TLS only, and kept when its stack goes. `lifecycle` says what ends by itself."""

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
            # Of an upload that a dying worker left, nobody sees the parts, but somebody pays for them.
            lifecycle_rules=[s3.LifecycleRule(abort_incomplete_multipart_upload_after=Duration.days(1)), *lifecycle],
            removal_policy=RemovalPolicy.RETAIN,
        )

    def send_events(self) -> None:
        """Have S3 tell EventBridge of every object. By the bucket's own property: `event_bridge_enabled=True`
        would deploy a Lambda function to set it."""
        bucket = self.node.default_child
        assert isinstance(bucket, s3.CfnBucket)
        bucket.notification_configuration = s3.CfnBucket.NotificationConfigurationProperty(
            event_bridge_configuration=s3.CfnBucket.EventBridgeConfigurationProperty(event_bridge_enabled=True)
        )
