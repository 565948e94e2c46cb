"""The findings of cdk-nag that are accepted, by rule and construct, each with its reason.

`*` in a rule or a construct stands for any text. A test fails for a finding that is not listed here, and for an entry
that matches no finding in any example configuration.
"""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import NamedTuple

from cosmos_batch.contract.s3 import ERROR_DOCUMENTS
from infra.security.nag import NagFinding


class AcceptedFinding(NamedTuple):
    """The reason why findings of a rule at some constructs are accepted."""

    rule: str
    construct: str
    reason: str

    def matches(self, finding: NagFinding) -> bool:
        """Return whether this reason is for a finding."""
        return _matches(finding.rule, self.rule) and _matches(finding.construct, self.construct)


def not_accepted(findings: Iterable[NagFinding]) -> list[NagFinding]:
    """Return the findings that no entry accepts."""
    return sorted(finding for finding in findings if not any(entry.matches(finding) for entry in ACCEPTED))


def _matches(text: str, pattern: str) -> bool:
    """Match a pattern in which only `*` is special: the names of cdk-nag's rules contain brackets."""
    return fnmatchcase(text, pattern.replace("[", "[[]"))


_SOLUTIONS, _NIST = "AwsSolutions-", "NIST.800.53.R5-"
_KEYS_OF_AWS = (
    "AWS's own keys encrypt this unless app.cosmosBatch.storage.kmsKey names a customer key. A customer key costs "
    "money for each request, and IAM decides who may read the data in either case"
)
_AWS_HAS_NO_RESOURCE = "AWS has no resource-level permissions for these actions; a test compares the list of them"
_BELOW_A_PREFIX = "These are the objects below a prefix of a named bucket, whose names are not known at deployment"

ACCEPTED = [
    # Keys
    *(
        AcceptedFinding(rule, construct, _KEYS_OF_AWS)
        for rule, construct in [
            (f"{_NIST}CloudWatchLogGroupEncrypted", "*Log/Resource"),
            (f"{_NIST}S3DefaultEncryptionKMS", "Storage/*/Resource"),
            (f"{_NIST}SecretsManagerUsingKMSKey", "Storage/HuggingFaceToken/Secret"),
            (f"{_NIST}SNSEncryptedKMS", "Monitoring/Alarms/Topic/Resource"),
        ]
    ),
    AcceptedFinding(
        f"{_SOLUTIONS}CB4",
        "Images/*Build/Project/Resource",
        "A project's key encrypts its artifacts, and these builds have none: images go to ECR, which has its own key",
    ),
    # Roles
    AcceptedFinding(
        f"{_SOLUTIONS}IAM4[*AmazonEC2ContainerServiceforEC2Role]",
        "Pipelines/Hosts/Role/Resource",
        "The agent of ECS on a host needs this policy, AWS keeps it up to date, and a worker has a role of its own",
    ),
    AcceptedFinding(
        f"{_SOLUTIONS}IAM4[*AWSLambdaBasicExecutionRole]",
        "Storage/BucketNotificationsHandler*/Role/Resource",
        "This role of a function of CDK exists only if an adopted bucket sends events; the policy allows its log",
    ),
    *(
        AcceptedFinding(f"{_SOLUTIONS}IAM5[Resource::*]", construct, _AWS_HAS_NO_RESOURCE)
        for construct in [
            "Images/*Build/Project/PolicyDocument/Resource",
            "Pipelines/Functions/*Role/DefaultPolicy/Resource",  # traces
            "Images/*Build/Project/Role/DefaultPolicy/Resource",
            "Pipelines/*/Worker/Container/ExecutionRole/DefaultPolicy/Resource",
            "Pipelines/Workflow/Machine/Role/DefaultPolicy/Resource",
        ]
    ),
    *(
        AcceptedFinding(f"{_SOLUTIONS}IAM5[Resource::*/*]", construct, _BELOW_A_PREFIX)
        for construct in [
            "Pipelines/Functions/*Role/DefaultPolicy/Resource",
            "Pipelines/*/Worker/Role/DefaultPolicy/Resource",
            "Pipelines/Workflow/Machine/Role/DefaultPolicy/Resource",  # the lists of shards
        ]
    ),
    AcceptedFinding(
        f"{_SOLUTIONS}IAM5[Resource::*:execution:*]",
        "Pipelines/Workflow/Machine/DistributedMapPolicy/Resource",
        "These are executions of the same state machine: children of a Distributed Map, one for each shard of a run",
    ),
    *(
        AcceptedFinding(f"{_SOLUTIONS}IAM5[Resource::{resource}]", "Pipelines/People/*/Resource", why)
        for resource, why in (
            ("*", _AWS_HAS_NO_RESOURCE),
            ("*/*", _BELOW_A_PREFIX),
            ("*/manifest.json", "The manifests of all models, whose names a person may change"),
            ("*:execution:*", "These are executions of our own state machine: the runs that people look at and stop"),
            ("*WorkerLog*", "These are the logs of this stack's workers; a list of them would not fit in a policy"),
        )
    ),
    AcceptedFinding(
        f"{_SOLUTIONS}IAM5[Resource::{ERROR_DOCUMENTS}]",
        "Pipelines/Functions/ReportRole/DefaultPolicy/Resource",
        "Error documents lie beside uploaded files, whose names are not known at deployment",
    ),
    AcceptedFinding(
        f"{_SOLUTIONS}IAM5[Action::s3:*]",
        "Images/*Build/Project/Role/DefaultPolicy/Resource",
        "CDK grants GetObject*, GetBucket* and List*, which only read, on one object of CDK's assets",
    ),
    AcceptedFinding(
        f"{_SOLUTIONS}IAM5[Resource::arn:*]",
        "Images/*Build/Project/Role/DefaultPolicy/Resource",
        "CodeBuild creates log streams below the project's name, and network interfaces, which a condition limits to "
        "our subnets",
    ),
    AcceptedFinding(
        f"{_SOLUTIONS}IAM5[Resource::*:stateMachine:vams-*]",
        "Pipelines/Functions/*Role/DefaultPolicy/Resource",
        "A task token names no state machine. VAMS's are called vams-..., and AWS refuses tokens of other accounts",
    ),
    AcceptedFinding(
        f"{_SOLUTIONS}IAM5[Resource::*:execution:*]",
        "Pipelines/Functions/UploadRole/DefaultPolicy/Resource",
        "These are executions of our own state machine: a late sidecar stops those that started without it",
    ),
    AcceptedFinding(
        f"{_SOLUTIONS}IAM5[Resource::<Functions*.Arn>:*]",
        "Pipelines/Workflow/Machine/Role/DefaultPolicy/Resource",
        "CDK grants the versions of two named functions",
    ),
    AcceptedFinding(
        f"{_NIST}IAMNoInlinePolicy",
        "*Policy*/Resource",
        "Each role has a policy of its own. A shared managed policy could give one of them what another needs",
    ),
    # Functions
    AcceptedFinding(
        f"{_SOLUTIONS}L1",
        "*/Resource",
        "Python 3.12 is supported until October 2028; the locked wheels are resolved and hashed for it",
    ),
    AcceptedFinding(
        f"{_NIST}LambdaInsideVPC",
        "*/Resource",
        "Functions call only AWS's services, with IAM and TLS. In the VPC they would need interface endpoints or NAT",
    ),
    AcceptedFinding(
        f"{_NIST}LambdaConcurrency",
        "*/Resource",
        "Their callers are limited: event sources by their concurrency, nudges by a message group for each pipeline. "
        "Reserved concurrency is taken from the account's pool, which in new accounts is ten",
    ),
    AcceptedFinding(
        f"{_NIST}LambdaDLQ",
        "*/Resource",
        "Events wait in queues with dead-letter queues. Functions that are called without a queue are called again by "
        "the state machine's retries or the next minute's schedule; CloudFormation and VAMS have their own timeouts",
    ),
    # Stores
    AcceptedFinding(
        f"{_NIST}S3BucketReplicationEnabled",
        "Storage/*/Resource",
        "Inputs come from elsewhere, and results and models can be produced again. To survive the loss of a region, "
        "adopt a replicated bucket",
    ),
    AcceptedFinding(
        f"{_NIST}S3BucketVersioningEnabled",
        "Storage/Models/Resource",
        "It holds copies of fixed revisions from the Hugging Face Hub, which can be downloaded again",
    ),
    AcceptedFinding(
        f"{_NIST}S3BucketVersioningEnabled",
        "Storage/State/Resource",
        "Attempts and requests are written once, under keys of their own, and expire after 30 days",
    ),
    AcceptedFinding(
        f"{_NIST}S3BucketVersioningEnabled",
        "Storage/Logs/Resource",
        "AWS writes each log once, under a key of its own, and no role of ours may write or delete there",
    ),
    AcceptedFinding(
        f"{_NIST}DynamoDBInBackupPlan",
        "Storage/StateTable/Resource",
        "Point-in-time recovery keeps every second of the last 35 days, longer than the rows of jobs live",
    ),
    AcceptedFinding(
        f"{_NIST}EFSInBackupPlan",
        "Storage/ModelCache/FileSystem/Resource",
        "It is a cache of the model bucket, which workers fill again. A backup would cost more than the cache",
    ),
    *(
        AcceptedFinding(
            rule,
            "Storage/HuggingFaceToken/Secret",
            "The Hugging Face Hub cannot rotate a token by program: its owner creates a new one and deploys",
        )
        for rule in (f"{_SOLUTIONS}SMG4", f"{_NIST}SecretsManagerRotationEnabled")
    ),
    # Network
    *(
        AcceptedFinding(
            rule,
            "Network/Vpc/Resource",
            "The storage stack has a flow log of rejected traffic, which cdk-nag does not see from the network stack",
        )
        for rule in (f"{_SOLUTIONS}VPC7", f"{_NIST}VPCFlowLogsEnabled")
    ),
    AcceptedFinding(
        f"{_NIST}VPCDefaultSecurityGroupClosed",
        "Network/Vpc/Resource",
        "The default group is not used. To close it CDK would deploy a function that may change security groups",
    ),
    AcceptedFinding(
        f"{_NIST}VPCNoUnrestrictedRouteToIGW",
        "Network/Vpc/PublicSubnet*/DefaultRoute",
        "These are the subnets of the NAT gateway, or of workers if network.mode is public: no security group of ours "
        "allows inbound traffic from outside",
    ),
]
