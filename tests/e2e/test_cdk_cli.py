"""The README's commands with the CDK's own CLI: create, update and destroy, against a local cloud."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cosmos_batch.local.cloud import LocalCloud
from tests.e2e.clear_text import files, holding, kinds, open_places
from tests.support.deployed_app import QUICK, SCRIPTED, App

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "hf_the-cli-must-not-say-this"
STACKS = {f"CosmosBatch-{name}" for name in ("Network", "Storage", "Images", "Pipelines", "Monitoring")}
NOT_COPIED = shutil.ignore_patterns(".git", ".venv", "node_modules", "cdk.out", "__pycache__", ".*_cache")


def commands() -> list[str]:
    """Return the lines of the README's block of commands."""
    [block] = re.findall(r"^```\n(npm ci\n.*?)^```$", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    return block.splitlines()


class Shell:
    """A person's shell in a checkout of their own."""

    def __init__(self, folder: Path) -> None:
        self.checkout, self.home = folder / "checkout", folder / "home"
        shutil.copytree(ROOT, self.checkout, ignore=NOT_COPIED)
        (self.checkout / ".venv").symlink_to(ROOT / ".venv")
        config = folder / "config.json"
        config.write_text(json.dumps(configuration(folder)))
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
            "PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}",
            "COSMOS_BATCH_HOME": str(self.home),
            "COSMOS_BATCH_CONFIG": str(config),
            "CDK_DISABLE_CLI_TELEMETRY": "1",
        }

    def run(self, *lines: str) -> str:
        """Run commands and return their output."""
        ran = subprocess.run(
            ["bash", "-ec", "\n".join(lines)],
            cwd=self.checkout, env=self._environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stdout
        return ran.stdout


def configuration(folder: Path) -> dict[str, object]:
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text("{}")
    reasoner = {"enabled": True, "engine": SCRIPTED, "model": str(folder / "model")}
    block = {"enabled": True, "useCodeBuild": False, "huggingFaceToken": TOKEN, "modelsReason": {"reason2B": reasoner}}
    own = {**QUICK, "storage": {"kmsKey": "create"}}
    return {"app": {"pipelines": {"useNvidiaCosmos": block}, "cosmosBatch": own}}


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    if shutil.which("npm") is None:
        pytest.skip("the CDK's command needs Node with npm")
    shell = Shell(tmp_path)
    yield shell
    cloud = LocalCloud.find(shell.home)
    if cloud:
        cloud.stop()


@pytest.mark.slow
@pytest.mark.timeout(600)  # three times the CDK's own command, on a busy machine
def test_the_cdk_creates_updates_and_destroys_the_stacks(shell: Shell, picture: Path) -> None:
    *setup, deploy, destroy, down = commands()
    point = next(line for line in setup if "eval" in line)

    created = shell.run(*setup, deploy)
    assert set(re.findall(r"✅  (\S+)$", created, re.MULTILINE)) == STACKS
    cloud = LocalCloud.find(shell.home)
    assert cloud is not None
    stacks = cloud.client("cloudformation").describe_stacks()["Stacks"]
    outputs = {output["OutputKey"]: output["OutputValue"] for stack in stacks for output in stack.get("Outputs", [])}
    secret = cloud.client("secretsmanager").get_secret_value(SecretId=outputs["HuggingFaceTokenSecretArn"])
    assert secret["SecretString"] == TOKEN
    app = App(cloud, shell.checkout, outputs)
    app.upload("p.png", picture, prompt="What is this?")
    assert app.execution_of("p.png", 180)["status"] == "SUCCEEDED"
    [document] = [key for key in keys(cloud, app.assets) if key.endswith(".json")]
    assert re.fullmatch(r"p_CosmosReason_\d{8}-\d{6}\.json", document)

    handler = shell.checkout / "lambdas" / "handlers" / "dead_letter.py"
    handler.write_text(handler.read_text() + "\n# changed\n")
    updated = shell.run(point, deploy)
    assert set(re.findall(r"✅  (\S+)$", updated, re.MULTILINE)) == {"CosmosBatch-Pipelines"}
    assert set(re.findall(r"✅  (\S+) \(no changes\)$", updated, re.MULTILINE)) == STACKS - {"CosmosBatch-Pipelines"}

    places = open_places(cloud)
    assert kinds(places) >= {
        "function",
        "job definition",
        "machine",
        "parameter",
        "template",
        "log group",
        "object",
        "file",
    }
    assert holding(TOKEN, places) == []
    assert holding(TOKEN, files(shell.checkout / "cdk.out")) == []

    [definition] = cloud.client("batch").describe_job_definitions(status="ACTIVE")["jobDefinitions"]
    image = definition["containerProperties"]["image"]
    destroyed = shell.run(point, destroy)
    assert set(re.findall(r"✅  (\S+): destroyed$", destroyed, re.MULTILINE)) == STACKS
    assert left(cloud) == {
        "buckets": ["assets", "logs", "models", "state"],
        "tables": [outputs["StateTableName"]],
        "keys": ["Stores of Cosmos Batch"],
        "images of CDK": [image.rpartition(":")[2]],
        "stacks": ["CDKToolkit"],
    }
    assert TOKEN not in created + updated + destroyed
    shell.run(f"{down} --discard")  # the rows of a job are left, which nothing can read without the stacks
    assert LocalCloud.find(shell.home) is None


def keys(cloud: LocalCloud, bucket: str) -> list[str]:
    return [item["Key"] for item in cloud.client("s3").list_objects_v2(Bucket=bucket)["Contents"]]


def left(cloud: LocalCloud) -> dict[str, list[str]]:
    """Return what a deployment leaves behind, without what every account and `cdk bootstrap` has."""
    look = cloud.client
    repositories = names(look("ecr").describe_repositories()["repositories"], "repositoryName")
    buckets = [
        bucket["Name"] for bucket in look("s3").list_buckets()["Buckets"] if not bucket["Name"].startswith("cdk-")
    ]
    resources = {
        "buckets": sorted(re.sub(r"cosmosbatch-storage-([a-z]+?)[0-9a-f]{8}-.*", r"\1", name) for name in buckets),
        "tables": look("dynamodb").list_tables()["TableNames"],
        "stacks": [stack["StackName"] for stack in look("cloudformation").describe_stacks()["Stacks"]],
        "functions": [function["FunctionName"] for function in look("lambda").list_functions()["Functions"]],
        "layers": [layer["LayerName"] for layer in look("lambda").list_layers()["Layers"]],
        "mappings": [mapping["UUID"] for mapping in look("lambda").list_event_source_mappings()["EventSourceMappings"]],
        "queues": look("sqs").list_queues().get("QueueUrls", []),
        "rules": [rule["Name"] for rule in look("events").list_rules()["Rules"]],
        "machines": [machine["name"] for machine in look("stepfunctions").list_state_machines()["stateMachines"]],
        "job queues": [queue["jobQueueName"] for queue in look("batch").describe_job_queues()["jobQueues"]],
        "computing": look("batch").describe_compute_environments()["computeEnvironments"],
        "file systems": [system["FileSystemId"] for system in look("efs").describe_file_systems()["FileSystems"]],
        "log groups": names(look("logs").describe_log_groups()["logGroups"], "logGroupName"),
        "keys": names(customer_keys(cloud), "Description"),
        "repositories": [name for name in repositories if not name.startswith("cdk-")],
        "images of CDK": [tag for name in repositories if name.startswith("cdk-") for tag in tags(cloud, name)],
        "secrets": [secret["Name"] for secret in look("secretsmanager").list_secrets()["SecretList"]],
        "roles": [role for role in names(look("iam").list_roles()["Roles"], "RoleName") if not role.startswith("cdk-")],
        "profiles": names(look("iam").list_instance_profiles()["InstanceProfiles"], "InstanceProfileName"),
        "networks": [vpc["VpcId"] for vpc in look("ec2").describe_vpcs()["Vpcs"] if not vpc["IsDefault"]],
        "groups": [group for group in names(look("ec2").describe_security_groups()["SecurityGroups"], "GroupName")
                   if group != "default"],
        "addresses": names(look("ec2").describe_addresses()["Addresses"], "PublicIp"),
        "launch templates": names(look("ec2").describe_launch_templates()["LaunchTemplates"], "LaunchTemplateName"),
        "alarms": names(look("cloudwatch").describe_alarms()["MetricAlarms"], "AlarmName"),
        "topics": names(look("sns").list_topics()["Topics"], "TopicArn"),
        "projects": look("codebuild").list_projects()["projects"],
    }  # fmt: skip
    return {kind: what for kind, what in resources.items() if what}


def customer_keys(cloud: LocalCloud) -> list[dict[str, str]]:
    kms = cloud.client("kms")
    keys = [kms.describe_key(KeyId=key["KeyId"])["KeyMetadata"] for key in kms.list_keys()["Keys"]]
    return [key for key in keys if key["KeyManager"] == "CUSTOMER"]


def tags(cloud: LocalCloud, repository: str) -> list[str]:
    images = cloud.client("ecr").describe_images(repositoryName=repository)["imageDetails"]
    return [tag for image in images for tag in image["imageTags"]]


def names(described: list[dict[str, str]], member: str) -> list[str]:
    return [description[member] for description in described]
