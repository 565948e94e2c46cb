"""IAM statements that say exactly which objects and calls."""

from collections.abc import Sequence

from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3


def allow(grantee: iam.IGrantable, actions: Sequence[str], resources: Sequence[str]) -> None:
    """Let `grantee` do `actions` on `resources`."""
    grantee.grant_principal.add_to_principal_policy(
        iam.PolicyStatement(actions=list(actions), resources=list(resources))
    )


def allow_objects(grantee: iam.IGrantable, bucket: s3.IBucket, pattern: str, *actions: str) -> None:
    """Let `grantee` do S3 `actions`, such as `GetObject`, on the objects of a key pattern."""
    allow(grantee, [f"s3:{action}" for action in actions], [bucket.arn_for_objects(pattern)])


def allow_list(grantee: iam.IGrantable, bucket: s3.IBucket, prefix: str | None = None) -> None:
    """Let `grantee` list a bucket; without that S3 calls a missing object forbidden, not missing."""
    conditions = {"StringLike": {"s3:prefix": f"{prefix}*"}} if prefix else None
    grantee.grant_principal.add_to_principal_policy(
        iam.PolicyStatement(actions=["s3:ListBucket"], resources=[bucket.bucket_arn], conditions=conditions)
    )


def allow_key(grantee: iam.IGrantable, key_arn: str, service: str, writes: bool = False) -> None:
    """Let `grantee` have a `service` use the customer key of what it keeps; the key's owner must allow that too."""
    grantee.grant_principal.add_to_principal_policy(
        iam.PolicyStatement(
            actions=["kms:Decrypt", "kms:GenerateDataKey"] if writes else ["kms:Decrypt"],
            resources=[key_arn],
            conditions={"StringEquals": {"kms:ViaService": f"{service}.{Aws.REGION}.{Aws.URL_SUFFIX}"}},
        )
    )
