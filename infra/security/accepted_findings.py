"""The findings of cdk-nag that stand, by rule and construct, each with the reason.

`*` in a rule or a construct is any text. A test fails on a finding that no line here answers, and on a line that
answers nothing in any example configuration.
"""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import NamedTuple

from infra.security.nag import Finding


class AcceptedFinding(NamedTuple):
    """One answer to findings of one kind."""

    rule: str
    construct: str
    reason: str

    def answers(self, finding: Finding) -> bool:
        """Whether this is about a finding."""
        return _matches(finding.rule, self.rule) and _matches(finding.construct, self.construct)


def not_accepted(found: Iterable[Finding]) -> list[Finding]:
    """Those that nobody has justified."""
    return sorted(one for one in found if not any(answer.answers(one) for answer in ACCEPTED))


def _matches(text: str, pattern: str) -> bool:
    """By `*` alone: rules of cdk-nag have brackets in their names."""
    return fnmatchcase(text, pattern.replace("[", "[[]"))


_SOLUTIONS, _NIST = "AwsSolutions-", "NIST.800.53.R5-"
_KEYS_OF_AWS = (
    "Encrypted with keys of AWS unless app.cosmosBatch.storage.kmsKey names a customer key: that costs money for each "
    "request, and who may use the data is decided by IAM either way"
)
_AWS_HAS_NO_RESOURCE = "AWS has no resource-level permission for these actions; a test holds the list of them"
_BELOW_A_PREFIX = "The objects below a prefix of a named bucket: their names are not known when this is deployed"

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
        "The key of a project encrypts its artifacts, and builds leave none: images go to ECR, which has its own",
    ),
    # Roles
    AcceptedFinding(
        f"{_SOLUTIONS}IAM4[*AmazonEC2ContainerServiceforEC2Role]",
        "Pipelines/Hosts/Role/Resource",
        "The agent of ECS on a host needs it, AWS keeps it up to date, and a worker has a role of its own",
    ),
    AcceptedFinding(
        f"{_SOLUTIONS}IAM4[*AWSLambdaBasicExecutionRole]",
        "Storage/BucketNotificationsHandler*/Role/Resource",
        "CDK's function, which exists only where an adopted bucket shall tell EventBridge; the policy allows its log",
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
        ]
    ),
    AcceptedFinding(
        f"{_SOLUTIONS}IAM5[Resource::*_CosmosError_*.json]",
        "Pipelines/Functions/ReportRole/DefaultPolicy/Resource",
        "Documents of errors, each beside the file that was uploaded: which files that will be is not known here",
    ),
    AcceptedFinding(
        f"{_SOLUTIONS}IAM5[Action::s3:*]",
        "Images/*Build/Project/Role/DefaultPolicy/Resource",
        "CDK's grant to read an asset: GetObject*, GetBucket* and List* are reads, of one object of CDK's assets",
    ),
    AcceptedFinding(
        f"{_SOLUTIONS}IAM5[Resource::arn:*]",
        "Images/*Build/Project/Role/DefaultPolicy/Resource",
        "The log streams that CodeBuild makes below the project's name, and its network interfaces, which a condition "
        "holds to our subnets",
    ),
    AcceptedFinding(
        f"{_SOLUTIONS}IAM5[Resource::*:stateMachine:vams-*]",
        "Pipelines/Functions/*Role/DefaultPolicy/Resource",
        "A task token names no state machine: VAMS's are called vams-..., and tokens of other accounts are refused",
    ),
    AcceptedFinding(
        f"{_SOLUTIONS}IAM5[Resource::*:execution:*]",
        "Pipelines/Functions/UploadRole/DefaultPolicy/Resource",
        "The executions of our own state machine: a late sidecar stops those that began without it",
    ),
    AcceptedFinding(
        f"{_SOLUTIONS}IAM5[Resource::<Functions*.Arn>:*]",
        "Pipelines/Workflow/Machine/Role/DefaultPolicy/Resource",
        "The versions of two named functions, as CDK grants them",
    ),
    AcceptedFinding(
        f"{_NIST}IAMNoInlinePolicy",
        "*Policy*/Resource",
        "Each role has one policy of its own, which nothing else may use: a shared managed one would widen it unseen",
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
        "Functions call AWS's services alone, by IAM over TLS. In the VPC they would need interface endpoints or NAT",
    ),
    AcceptedFinding(
        f"{_NIST}LambdaConcurrency",
        "*/Resource",
        "What feeds them is limited: event sources by their concurrency, nudges by one group per pipeline. Reserved "
        "concurrency would take from the account's pool, of which new accounts have ten",
    ),
    AcceptedFinding(
        f"{_NIST}LambdaDLQ",
        "*/Resource",
        "Events wait in queues, which have dead letters. What is called without one is called again: by the state "
        "machine's retries, by the next minute's sweep, or CloudFormation and VAMS see their own timeout",
    ),
    # Stores
    AcceptedFinding(
        f"{_NIST}S3BucketReplicationEnabled",
        "Storage/*/Resource",
        "Inputs have their own source, results and models can be made again. Who must survive a region's loss adopts "
        "a bucket that is replicated",
    ),
    AcceptedFinding(
        f"{_NIST}S3BucketVersioningEnabled",
        "Storage/Models/Resource",
        "A copy of fixed revisions from the Hugging Face Hub: lost, it is downloaded again",
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
        "A cache of the model bucket: lost, it fills itself again. A backup would cost more than the cache",
    ),
    *(
        AcceptedFinding(
            rule,
            "Storage/HuggingFaceToken/Secret",
            "The Hugging Face Hub has no way to rotate a token by program: its owner makes a new one and deploys",
        )
        for rule in (f"{_SOLUTIONS}SMG4", f"{_NIST}SecretsManagerRotationEnabled")
    ),
    # Network
    *(
        AcceptedFinding(
            rule,
            "Network/Vpc/Resource",
            "There is one, in the storage stack, where cdk-nag does not look: refused traffic, to the log bucket",
        )
        for rule in (f"{_SOLUTIONS}VPC7", f"{_NIST}VPCFlowLogsEnabled")
    ),
    AcceptedFinding(
        f"{_NIST}VPCDefaultSecurityGroupClosed",
        "Network/Vpc/Resource",
        "Nothing is in the default group. To close it CDK would deploy a function that may change security groups",
    ),
    AcceptedFinding(
        f"{_NIST}VPCNoUnrestrictedRouteToIGW",
        "Network/Vpc/PublicSubnet*/DefaultRoute",
        "Of the subnets with the NAT gateway, or of workers where the configuration says network.mode public: no "
        "security group of ours admits anything from outside",
    ),
]
