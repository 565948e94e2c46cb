"""Where files come from and results go: a bucket of ours, and those of others that the configuration names."""

from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import CfnResource, Duration, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from constructs import Construct

from cosmos_batch.contract.storage import AdoptedBucket
from infra.constructs.permissions import allow, allow_key, allow_list, allow_objects
from infra.constructs.private_bucket import PrivateBucket


@dataclass(frozen=True)
class AssetBucket:
    """One of them. Of an adopted one, what lies below `prefix`."""

    bucket: s3.IBucket
    prefix: str = ""
    triggers: bool = False
    key_arn: str | None = None  # the owner's, of an adopted bucket

    @property
    def root(self) -> str:
        """`bucket` or `bucket/prefix/`, as `plan` reads it."""
        return f"{self.bucket.bucket_name}/{self.prefix}" if self.prefix else self.bucket.bucket_name


class AssetBuckets(Construct):
    """All of them. An adopted bucket stays as it is; only where uploads shall start runs, it tells EventBridge."""

    def __init__(
        self, scope: Construct, construct_id: str, own: PrivateBucket | None, adopted: Sequence[AdoptedBucket]
    ) -> None:
        super().__init__(scope, construct_id)
        self.own = own
        self.all = [AssetBucket(own, triggers=True)] if own is not None else []
        for number, settings in enumerate(adopted):
            bucket = s3.Bucket.from_bucket_name(self, f"{number}-{settings.name}", settings.name)
            if settings.trigger_on_upload:
                # CDK's function adds this to the notifications that the bucket has; it stays when the stack goes.
                bucket.enable_event_bridge_notification()
            self.all.append(AssetBucket(bucket, settings.prefix, settings.trigger_on_upload, settings.kms_key_arn))

        self._keep_log_of_notifier()

    def _keep_log_of_notifier(self) -> None:
        """CDK's function has no log group of its own: Lambda would make one that is kept for ever."""
        for handler in Stack.of(self).node.children:
            if handler.node.id.startswith("BucketNotificationsHandler"):
                log = logs.LogGroup(self, "NotifierLog", removal_policy=RemovalPolicy.DESTROY)
                function = handler.node.default_child
                assert isinstance(function, CfnResource)
                function.add_property_override("LoggingConfig", {"LogGroup": log.log_group_name})

    @property
    def roots(self) -> list[str]:
        """Where inputs and outputs may lie."""
        return [one.root for one in self.all]

    @property
    def triggering(self) -> list[AssetBucket]:
        """Those whose uploads start runs."""
        return [one for one in self.all if one.triggers]

    def allow_input(self, grantee: iam.IGrantable, *actions: str) -> None:
        """Let `grantee` read files in any version, and do some more `actions` on them."""
        for one in self.all:
            allow_list(grantee, one.bucket, one.prefix or None)
            allow_objects(grantee, one.bucket, f"{one.prefix}*", "GetObject", "GetObjectVersion", *actions)
            if one.key_arn is not None:
                allow_key(grantee, one.key_arn, "s3", writes="PutObject" in actions)

    def allow_error_documents(self, grantee: iam.IGrantable) -> None:
        """Let `grantee` write a document of an error beside a file whose upload started a run."""
        for one in self.triggering:
            allow_objects(grantee, one.bucket, f"{one.prefix}*_CosmosError_*.json", "PutObject")
            if one.key_arn is not None:
                allow_key(grantee, one.key_arn, "s3", writes=True)

    def allow_versions(self, grantee: iam.IGrantable) -> None:
        """Let `grantee` list the versions of files whose uploads start runs."""
        allow(grantee, ["s3:ListBucketVersions"], [one.bucket.bucket_arn for one in self.triggering])


def make_own_bucket(scope: Construct, kept_versions: Duration) -> PrivateBucket:
    """Versioned, for a job reads the version that it was started for."""
    bucket = PrivateBucket(
        scope, "Assets", versioned=True, lifecycle=[s3.LifecycleRule(noncurrent_version_expiration=kept_versions)]
    )
    bucket.send_events()
    return bucket
