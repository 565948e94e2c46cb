"""Encrypt all stores with one customer key, if the configuration asks for it.

The key's policy allows services of AWS to use it for callers of this account, as the policies of AWS's own keys do. So
a role that may read a store may have it decrypted, but only through that store; no role has a statement about the key.
"""

from collections.abc import Mapping
from typing import Any

from aws_cdk import Aws, CfnResource, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct, IConstruct

USE = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"]
STORES = ["dynamodb", "ecr", "elasticfilesystem", "lambda", "s3", "secretsmanager", "sns", "sqs"]
# The roles that start hosts, whose root volumes the key encrypts.
HOST_STARTERS = [
    "autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling",
    "spot.amazonaws.com/AWSServiceRoleForEC2Spot",
]
# The services that send messages to our queues and topics on their own behalf.
SENDERS = ["budgets.amazonaws.com", "cloudwatch.amazonaws.com", "events.amazonaws.com"]


def make_key(scope: Construct) -> kms.Key:
    """Create a key that is rotated every year, and kept when its stack is deleted, as the stores are."""
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
    """Return the statements that the key's policy needs. The owner of an existing key has to add them."""
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
        # The roles are in a condition: a policy's principals must exist, and these may be created later.
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
    """Encrypt every store of the app with the key of the stack `owner`, except one."""
    imported = owner.export_value(key.key_arn) if isinstance(key, kms.Key) else key.key_arn
    for construct in app.node.find_all():
        if isinstance(construct, CfnResource) and construct.node.scope is not except_for:
            arn = key.key_arn if Stack.of(construct) is owner else imported
            for path, value in _key_properties(construct.cfn_resource_type, arn).items():
                construct.add_property_override(path, value)


def _key_properties(resource_type: str, arn: str) -> Mapping[str, Any]:
    """Return the properties by which a type of resource gets its key; none for a type that stores nothing."""
    bucket_default = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": arn}
    places: dict[str, dict[str, Any]] = {
        "AWS::DynamoDB::Table": {"SSESpecification": {"SSEEnabled": True, "SSEType": "KMS", "KMSMasterKeyId": arn}},
        "AWS::EC2::LaunchTemplate": {"LaunchTemplateData.BlockDeviceMappings.0.Ebs.KmsKeyId": arn},
        "AWS::ECR::Repository": {"EncryptionConfiguration": {"EncryptionType": "KMS", "KmsKey": arn}},
        "AWS::EFS::FileSystem": {"KmsKeyId": arn},
        "AWS::Lambda::Function": {"KmsKeyArn": arn},  # it encrypts the function's environment variables
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
