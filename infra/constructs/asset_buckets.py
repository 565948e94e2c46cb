"""The asset buckets, which hold inputs and results: our own one, and adopted ones that the configuration names."""

from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import CfnResource, Duration, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from constructs import Construct

from cosmos_batch.contract.s3 import ERROR_DOCUMENTS
from cosmos_batch.contract.storage import AdoptedBucket
from infra.constructs.permissions import allow, allow_key, allow_list, allow_objects
from infra.constructs.private_bucket import PrivateBucket


@dataclass(frozen=True)
class AssetBucket:
    """An asset bucket. If it is an adopted one, only objects below `prefix` are used."""

    bucket: s3.IBucket
    prefix: str = ""
    triggers: bool = False
    key_arn: str | None = None  # the key with which the owner of an adopted bucket encrypts it

    def allow_listing(self, grantee: iam.IGrantable) -> None:
        """Allow `grantee` to list the files, and not to read them."""
        allow_list(grantee, self.bucket, self.prefix or None)

    @property
    def root(self) -> str:
        """Return `bucket` or `bucket/prefix/`, the form in which `plan` reads it."""
        return f"{self.bucket.bucket_name}/{self.prefix}" if self.prefix else self.bucket.bucket_name


class AssetBuckets(Construct):
    """All asset buckets. An adopted one is changed only if uploads start runs: then it sends events to EventBridge."""

    def __init__(
        self, scope: Construct, construct_id: str, own: PrivateBucket | None, adopted: Sequence[AdoptedBucket]
    ) -> None:
        super().__init__(scope, construct_id)
        self.own = own
        self.all = [AssetBucket(own, triggers=True)] if own is not None else []
        for number, settings in enumerate(adopted):
            bucket = s3.Bucket.from_bucket_name(self, f"{number}-{settings.name}", settings.name)
            if settings.trigger_on_upload:
                # CDK's function adds this to the bucket's notifications; it stays when the stack is deleted.
                bucket.enable_event_bridge_notification()
            self.all.append(AssetBucket(bucket, settings.prefix, settings.trigger_on_upload, settings.kms_key_arn))

        self._add_log_for_notifier()

    def _add_log_for_notifier(self) -> None:
        """Give CDK's function a log group: without one, Lambda would create one that is kept for ever."""
        for handler in Stack.of(self).node.children:
            if handler.node.id.startswith("BucketNotificationsHandler"):
                log = logs.LogGroup(self, "NotifierLog", removal_policy=RemovalPolicy.DESTROY)
                function = handler.node.default_child
                assert isinstance(function, CfnResource)
                function.add_property_override("LoggingConfig", {"LogGroup": log.log_group_name})

    @property
    def roots(self) -> list[str]:
        """Return the buckets and prefixes in which inputs and outputs may lie."""
        return [bucket.root for bucket in self.all]

    @property
    def triggering(self) -> list[AssetBucket]:
        """Return the buckets in which uploads start runs."""
        return [bucket for bucket in self.all if bucket.triggers]

    def allow_input(self, grantee: iam.IGrantable, *actions: str) -> None:
        """Allow `grantee` to read all versions of files, and further actions on them."""
        for asset in self.all:
            asset.allow_listing(grantee)
            allow_objects(grantee, asset.bucket, f"{asset.prefix}*", "GetObject", "GetObjectVersion", *actions)
            if asset.key_arn is not None:
                allow_key(grantee, asset.key_arn, "s3", writes="PutObject" in actions)

    def allow_listing(self, grantee: iam.IGrantable) -> None:
        """Allow `grantee` to list the files, and not to read them."""
        for asset in self.all:
            asset.allow_listing(grantee)

    def allow_error_documents(self, grantee: iam.IGrantable) -> None:
        """Allow `grantee` to write error documents beside files whose uploads start runs."""
        for asset in self.triggering:
            allow_objects(grantee, asset.bucket, f"{asset.prefix}{ERROR_DOCUMENTS}", "PutObject")
            if asset.key_arn is not None:
                allow_key(grantee, asset.key_arn, "s3", writes=True)

    def allow_versions(self, grantee: iam.IGrantable) -> None:
        """Allow `grantee` to list the versions of files whose uploads start runs."""
        allow(grantee, ["s3:ListBucketVersions"], [asset.bucket.bucket_arn for asset in self.triggering])


def make_own_bucket(scope: Construct, kept_versions: Duration) -> PrivateBucket:
    """Create our own bucket, with versioning: a job reads the version that it was started for."""
    bucket = PrivateBucket(
        scope, "Assets", versioned=True, lifecycle=[s3.LifecycleRule(noncurrent_version_expiration=kept_versions)]
    )
    bucket.send_events()
    return bucket
