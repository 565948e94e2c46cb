"""cdk-nag and cfn-lint accept every example, and tests check what both tools miss."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

from cosmos_batch.planning.configuration import load_config, parse_config
from infra.security.accepted_findings import ACCEPTED, AcceptedFinding, not_accepted
from infra.security.nag import NagFinding, findings
from infra.synth import synthesize
from tests.infra.assembly import Assembly, Resource, endpoint_service
from tests.infra.examples import FOLDER, NAMES, example

# The example with everything is enough for most changes.
MOST_SLOW = [name if name == "everything" else pytest.param(name, marks=pytest.mark.slow) for name in NAMES]


@cache
def found(name: str) -> frozenset[NagFinding]:
    """Return the findings of cdk-nag in `examples/<name>.json`."""
    outdir = Path(mkdtemp(prefix=f"cosmos-batch-nag-{name}-")) / "cdk.out"
    return frozenset(findings(load_config(FOLDER / f"{name}.json"), outdir))


@pytest.mark.parametrize("name", MOST_SLOW)
def test_every_finding_of_cdk_nag_has_an_answer(name: str) -> None:
    assert found(name)  # it ran
    assert not not_accepted(found(name)), "\n".join(map(str, not_accepted(found(name))))


@pytest.mark.slow
def test_every_answer_has_a_finding() -> None:
    everything = frozenset[NagFinding]().union(*(found(name) for name in NAMES))
    assert not [one for one in ACCEPTED if not any(one.matches(finding) for finding in everything)]


def test_an_accepted_finding_holds_for_its_rule_and_construct_alone() -> None:
    answer = AcceptedFinding("Pack-R1[Resource::*/*]", "Stack/*/Role", "because")
    assert answer.matches(NagFinding("Pack-R1[Resource::bucket/*]", "Stack/A/Role", ""))
    assert not answer.matches(NagFinding("Pack-R1[Resource::*]", "Stack/A/Role", ""))
    assert not answer.matches(NagFinding("Pack-R1[Resource::bucket/*]", "Other/A/Role", ""))


@pytest.mark.parametrize("name", NAMES)
def test_every_function_has_a_log_group_with_a_retention(name: str) -> None:
    assembly = example(name)
    for stack in assembly.templates:
        groups = assembly.resources(stack, "Logs::LogGroup")
        assert all(group["Properties"]["RetentionInDays"] for group in groups.values())
        for function in assembly.properties(stack, "Lambda::Function"):
            assert function["LoggingConfig"]["LogGroup"]["Ref"] in groups


# Where each type of store takes a customer key.
KEYS = {
    "DynamoDB::Table": "SSESpecification",
    "EC2::LaunchTemplate": "LaunchTemplateData",
    "ECR::Repository": "EncryptionConfiguration",
    "EFS::FileSystem": "KmsKeyId",
    "Lambda::Function": "KmsKeyArn",
    "Logs::LogGroup": "KmsKeyId",
    "S3::Bucket": "BucketEncryption",
    "SecretsManager::Secret": "KmsKeyId",
    "SNS::Topic": "KmsMasterKeyId",
    "SQS::Queue": "KmsMasterKeyId",
}


def encryption_of(assembly: Assembly, kind: str) -> dict[str, str]:
    """Return the encryption settings of all resources of a type as text, by logical id."""
    return {
        name: json.dumps(resource["Properties"].get(KEYS[kind]))
        for stack in assembly.templates
        for name, resource in assembly.resources(stack, kind).items()
    }


class TestCustomerKey:
    """Tests of the customer key in `examples/vpc-only.json`."""

    @pytest.mark.parametrize("kind", KEYS)
    def test_every_store_has_the_key(self, kind: str) -> None:
        ours = json.dumps(next(iter(example("vpc-only").resources("Storage", "KMS::Key"))))[1:-1]
        encryption = encryption_of(example("vpc-only"), kind)
        assert encryption or kind == "SNS::Topic"
        others = [name for name, text in encryption.items() if ours not in text]
        # S3 cannot write access logs with it.
        assert [name[:4] for name in others] == (["Logs"] if kind == "S3::Bucket" else [])

    def test_queues_have_one_encryption(self) -> None:
        queues = example("vpc-only").properties("Pipelines", "SQS::Queue")
        assert {queue["SqsManagedSseEnabled"] for queue in queues} == {False}

    def test_the_customer_key_is_rotated_and_kept(self) -> None:
        (key,) = example("vpc-only").resources("Storage", "KMS::Key").values()
        assert key["Properties"]["EnableKeyRotation"] is True and key["DeletionPolicy"] == "Retain"

    def test_the_policy_of_the_key_admits_only_the_account_without_a_condition(self) -> None:
        (key,) = example("vpc-only").resources("Storage", "KMS::Key").values()
        account, *others = key["Properties"]["KeyPolicy"]["Statement"]
        assert ":root" in json.dumps(account["Principal"])
        assert others and all(one["Condition"] for one in others)
        (grants,) = [one for one in others if one["Action"] == "kms:CreateGrant"]
        assert grants["Condition"]["Bool"] == {"kms:GrantIsForAWSResource": "true"}
        assert "AWSServiceRoleForAutoScaling" in json.dumps(grants) and "AWSServiceRoleForEC2Spot" in json.dumps(grants)

    def test_an_existing_key_is_used_and_not_made(self, tmp_path: Path) -> None:
        arn = "arn:aws-us-gov:kms:us-gov-west-1:123456789012:key/01234567-89ab-cdef-0123-456789abcdef"
        config = json.loads((FOLDER / "vpc-only.json").read_text(encoding="utf-8"))
        config["app"]["cosmosBatch"]["storage"]["kmsKey"] = arn
        assembly = Assembly(synthesize(parse_config(json.dumps(config)), tmp_path / "cdk.out"))
        assert not assembly.resources("Storage", "KMS::Key")
        assert all(text == f'"{arn}"' for text in encryption_of(assembly, "SQS::Queue").values())

    def test_without_a_customer_key_every_store_is_encrypted_all_the_same(self) -> None:
        assembly = example("everything")
        assert not assembly.resources("Storage", "KMS::Key")
        assert all(queue["SqsManagedSseEnabled"] for queue in assembly.properties("Pipelines", "SQS::Queue"))
        assert all("AES256" in text for text in encryption_of(assembly, "S3::Bucket").values())
        assert '"Encrypted": true' in json.dumps(assembly.resources("Pipelines", "EC2::LaunchTemplate"))


def test_the_key_of_an_adopted_bucket_is_used_through_s3_alone(tmp_path: Path) -> None:
    arn = "arn:aws:kms:us-east-1:123456789012:key/01234567-89ab-cdef-0123-456789abcdef"
    config = json.loads((FOLDER / "existing-vpc.json").read_text(encoding="utf-8"))
    config["app"]["cosmosBatch"]["storage"]["assetBuckets"][0]["kmsKeyArn"] = arn
    assembly = Assembly(synthesize(parse_config(json.dumps(config)), tmp_path / "cdk.out"))
    actions = {}
    for role in ("FunctionsPlan", "FunctionsUpload", "WorkerRole"):
        (statement,) = [one for one in assembly.statements(role) if one["Resource"] == arn]
        assert "kms:ViaService" in json.dumps(statement["Condition"])
        actions[role] = statement["Action"]
    assert actions["FunctionsPlan"] == actions["FunctionsUpload"] == "kms:Decrypt"
    assert actions["WorkerRole"] == ["kms:Decrypt", "kms:GenerateDataKey"]


def everywhere(kind: str) -> list[tuple[str, Resource]]:
    """Return the example's name and the properties for all resources of a type in all examples."""
    return [
        (name, properties)
        for name in NAMES
        for stack in example(name).templates
        for properties in example(name).properties(stack, kind)
    ]


class TestWhatTheToolsMiss:
    """cdk-nag has no rules for Batch, and cfn-lint accepts values that AWS refuses."""

    def test_workers_are_not_privileged_and_tried_once(self) -> None:
        definitions = everywhere("Batch::JobDefinition")
        assert definitions
        for name, definition in definitions:
            assert not definition["ContainerProperties"].get("Privileged"), name
            assert definition["RetryStrategy"]["Attempts"] == 1, name
            assert len(json.dumps(definition)) < 24 * 1024, name

    def test_files_are_mounted_with_tls_and_iam(self) -> None:
        volumes = [
            volume["EfsVolumeConfiguration"]
            for _, definition in everywhere("Batch::JobDefinition")
            for volume in definition["ContainerProperties"]["Volumes"]
            if "EfsVolumeConfiguration" in volume
        ]
        assert volumes
        for volume in volumes:
            assert volume["TransitEncryption"] == "ENABLED"
            assert volume["AuthorizationConfig"]["Iam"] == "ENABLED"

    def test_hosts_have_a_numbered_version_of_their_template(self) -> None:
        for name, environment in everywhere("Batch::ComputeEnvironment"):
            version = environment["ComputeResources"]["LaunchTemplate"]["Version"]
            assert "LatestVersionNumber" in json.dumps(version), name

    def test_queues_have_no_more_environments_than_batch_takes(self) -> None:
        assert all(1 <= len(queue["ComputeEnvironmentOrder"]) <= 3 for _, queue in everywhere("Batch::JobQueue"))

    def test_buckets_and_queues_refuse_plain_http(self) -> None:
        plain = {"Bool": {"aws:SecureTransport": "false"}}
        for kind, policy in (("S3::Bucket", "S3::BucketPolicy"), ("SQS::Queue", "SQS::QueuePolicy")):
            policies = [one for _, one in everywhere(policy)]
            assert len(policies) >= len(everywhere(kind))
            for one in policies:
                denials = [each for each in one["PolicyDocument"]["Statement"] if each["Effect"] == "Deny"]
                assert plain in [each["Condition"] for each in denials]

    def test_vpc_endpoints_are_for_our_account_and_their_service(self) -> None:
        ours = {"StringEquals": {"aws:PrincipalAccount": {"Ref": "AWS::AccountId"}}}
        open_ones = set()
        for name, endpoint in everywhere("EC2::VPCEndpoint"):
            service = endpoint_service(endpoint)
            if "PolicyDocument" not in endpoint:
                open_ones.add(service)
                continue
            for statement in endpoint["PolicyDocument"]["Statement"]:
                # Image layers and packages lie in buckets of AWS; whoever asks may read those, and nothing else.
                of_aws = service == "s3" and statement["Action"] == "s3:GetObject" and "*" not in statement["Resource"]
                assert of_aws or statement["Condition"] == ours, (name, service)
                assert statement["Action"].startswith(service.partition(".")[0] + ":"), (name, service)
        assert open_ones == {"ecs-agent", "ecs-telemetry"}  # ECS documents no policies for them

    def test_flow_logs_are_there_where_the_vpc_is_ours(self) -> None:
        for name in NAMES:
            vpcs = example(name).resources("Network", "EC2::VPC")
            logs = example(name).properties("Storage", "EC2::FlowLog")
            assert len(logs) == len(vpcs) and all(log["TrafficType"] == "REJECT" for log in logs)


# Dependencies that CDK writes, and availability zones that the configuration names.
NOT_AMISS = "W3005,W3010"


@pytest.mark.parametrize("name", MOST_SLOW)
def test_cfn_lint_finds_nothing_in_an_example(name: str) -> None:
    command = [Path(sys.executable).with_name("cfn-lint"), "--ignore-checks", NOT_AMISS, "--"]
    templates = sorted(example(name).folder.glob("*.template.json"))
    answer = subprocess.run([*command, *templates], capture_output=True, text=True, check=False, timeout=120)
    assert templates and answer.returncode == 0, answer.stdout


@pytest.mark.parametrize("name", NAMES)
def test_a_template_is_far_from_cloudformations_limits(name: str) -> None:
    for stack, template in example(name).templates.items():
        assert len(template["Resources"]) <= 420, stack  # of 500
        assert len(json.dumps(template)) <= 800_000, stack  # of 1,000,000
