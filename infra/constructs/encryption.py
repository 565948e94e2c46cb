"""One customer key for all stores, where the configuration asks for it.

The key's policy says which services may use it for callers of this account, as the policies of AWS's own keys do: who
may read a store by IAM may have it decrypted, through that store alone. No role has a statement about the key.
"""

from collections.abc import Mapping
from typing import Any

from aws_cdk import Aws, CfnResource, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct, IConstruct

USE = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"]
STORES = ["dynamodb", "ecr", "elasticfilesystem", "lambda", "s3", "secretsmanager", "sns", "sqs"]
# Hosts are started by these, with root volumes of the key.
HOST_STARTERS = [
    "autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling",
    "spot.amazonaws.com/AWSServiceRoleForEC2Spot",
]
# They send to queues and topics by themselves.
SENDERS = ["budgets.amazonaws.com", "cloudwatch.amazonaws.com", "events.amazonaws.com"]


def make_key(scope: Construct) -> kms.Key:
    """A key of ours, rotated every year, and kept when its stack goes: what it encrypted is kept too."""
    key = kms.Key(
        scope,
        "Key",
        description="Stores of Cosmos Batch",
        enable_key_rotation=True,
        removal_policy=RemovalPolicy.RETAIN,
    )
    for statement in key_statements():
        key.add_to_resource_policy(statement)
    return key


def key_statements() -> list[iam.PolicyStatement]:
    """What the policy of the key must say; the owner of an existing key adds these."""
    account = {"kms:CallerAccount": Aws.ACCOUNT_ID}
    via = [f"{service}.{Aws.REGION}.{Aws.URL_SUFFIX}" for service in STORES]
    starters = [f"arn:{Aws.PARTITION}:iam::{Aws.ACCOUNT_ID}:role/aws-service-role/{role}" for role in HOST_STARTERS]
    log_groups = f"arn:{Aws.PARTITION}:logs:{Aws.REGION}:{Aws.ACCOUNT_ID}:*"
    return [
        _statement(
            "Stores",
            iam.AnyPrincipal(),
            [*USE, "kms:CreateGrant"],
            {"StringEquals": {**account, "kms:ViaService": via}},
        ),
        # By condition, not as principals: a policy may not name a role that is not there yet.
        _statement("Hosts", iam.AnyPrincipal(), USE, {"ArnEquals": {"aws:PrincipalArn": starters}}),
        _statement(
            "HostVolumes",
            iam.AnyPrincipal(),
            ["kms:CreateGrant"],
            {"ArnEquals": {"aws:PrincipalArn": starters}, "Bool": {"kms:GrantIsForAWSResource": "true"}},
        ),
        _statement(
            "Logs",
            iam.ServicePrincipal(f"logs.{Aws.REGION}.{Aws.URL_SUFFIX}"),
            USE,
            {"ArnLike": {"kms:EncryptionContext:aws:logs:arn": log_groups}},
        ),
        *(
            _statement(
                f"From{service.partition('.')[0].title()}",
                iam.ServicePrincipal(service),
                ["kms:Decrypt", "kms:GenerateDataKey*"],
                {"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
            )
            for service in SENDERS
        ),
    ]


def encrypt_stores(app: IConstruct, owner: Stack, key: kms.IKey, except_for: IConstruct) -> None:
    """Give the key, which stands in `owner`, to every store of the app, `except_for` one."""
    imported = owner.export_value(key.key_arn) if isinstance(key, kms.Key) else key.key_arn
    for construct in app.node.find_all():
        if isinstance(construct, CfnResource) and construct.node.scope is not except_for:
            arn = key.key_arn if Stack.of(construct) is owner else imported
            for path, value in _key_properties(construct.cfn_resource_type, arn).items():
                construct.add_property_override(path, value)


def _key_properties(resource_type: str, arn: str) -> Mapping[str, Any]:
    """Where a type of resource takes its key."""
    bucket_default = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": arn}
    places: dict[str, dict[str, Any]] = {
        "AWS::DynamoDB::Table": {"SSESpecification": {"SSEEnabled": True, "SSEType": "KMS", "KMSMasterKeyId": arn}},
        "AWS::EC2::LaunchTemplate": {"LaunchTemplateData.BlockDeviceMappings.0.Ebs.KmsKeyId": arn},
        "AWS::ECR::Repository": {"EncryptionConfiguration": {"EncryptionType": "KMS", "KmsKey": arn}},
        "AWS::EFS::FileSystem": {"KmsKeyId": arn},
        "AWS::Lambda::Function": {"KmsKeyArn": arn},  # of its environment variables
        "AWS::Logs::LogGroup": {"KmsKeyId": arn},
        "AWS::S3::Bucket": {
            "BucketEncryption.ServerSideEncryptionConfiguration": [
                {"BucketKeyEnabled": True, "ServerSideEncryptionByDefault": bucket_default}
            ]
        },
        "AWS::SecretsManager::Secret": {"KmsKeyId": arn},
        "AWS::SNS::Topic": {"KmsMasterKeyId": arn},
        "AWS::SQS::Queue": {"KmsMasterKeyId": arn, "SqsManagedSseEnabled": False},
    }
    return places.get(resource_type, {})


def _statement(
    sid: str, principal: iam.IPrincipal, actions: list[str], conditions: dict[str, Any]
) -> iam.PolicyStatement:
    return iam.PolicyStatement(sid=sid, principals=[principal], actions=actions, resources=["*"], conditions=conditions)
