"""Deployment of a cloud assembly: assets first, stacks in order, and errors that name the resource."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.local.cloud import LocalCloud
from cosmos_batch.local.containers.dockerfile import DockerfileError, read_image
from cosmos_batch.local.deploy import DeployError, deploy
from tests.local.support import wait_until

BUCKET = "cdk-hnb659fds-assets-${AWS::AccountId}-${AWS::Region}"


class Assembly:
    """A cloud assembly of two stacks, the second of which imports from the first."""

    def __init__(self, directory: Path, prefix: str) -> None:
        self.directory, self.prefix = directory, prefix
        (directory / "code").mkdir()
        self.code("one")
        (directory / "image").mkdir()
        (directory / "image" / "Dockerfile").write_text('FROM x\nENTRYPOINT ["python", "-m", "worker"]\n')
        (directory / "make.py").write_text(
            "import boto3, pathlib\n"
            f"boto3.client('ssm').put_parameter(Name='/{prefix}/token', Value='t', Type='String', Overwrite=True)\n"
            "pathlib.Path('made.zip').write_bytes(b'zip')\n"
            "print('made.zip')\n"
        )
        self.write()

    def code(self, answer: str) -> None:
        text = f"def handler(event, context):\n    return {answer!r}\n"
        (self.directory / "code" / "index.py").write_text(text)
        self.answer = answer

    def write(self, **first_resources: Any) -> None:
        role = {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": {"Statement": []}}}
        code = {
            "S3Bucket": {"Fn::Sub": BUCKET},
            "S3Key": f"{self.prefix}-{self.answer}.zip",
        }
        function = {
            "Type": "AWS::Lambda::Function",
            "Properties": {
                "Handler": "index.handler",
                "Runtime": "python3.12",
                "Role": {"Fn::ImportValue": f"{self.prefix}:Role"},
                "Code": code,
            },
        }
        first = {
            "Resources": {"Role": role, **first_resources},
            "Outputs": {"R": {"Value": {"Fn::GetAtt": ["Role", "Arn"]}, "Export": {"Name": f"{self.prefix}:Role"}}},
        }
        second = {"Resources": {"F": function}, "Outputs": {"Name": {"Value": {"Ref": "F"}}}}
        place = lambda key: {"here": {"bucketName": BUCKET, "objectKey": key}}  # noqa: E731
        files = {
            "code": {"source": {"path": "code", "packaging": "zip"}, "destinations": place(code["S3Key"])},
            "made": {
                "source": {"executable": [sys.executable, "make.py"]},
                "destinations": place(f"{self.prefix}.zip"),
            },
        }
        image = {"source": {"directory": "image"}, "destinations": {"here": {"repositoryName": "r", "imageTag": "t"}}}
        manifest = {"files": files, "dockerImages": {"image": image}}
        artifacts = {
            # The second stack comes first in the file, because dependencies decide the order.
            "Second": self._stack("Second", ["First", "Second.assets"]),
            "Second.assets": {"type": "cdk:asset-manifest", "properties": {"file": "Second.assets.json"}},
            "First": self._stack("First", []),
        }
        for name, content in {
            "First.json": first,
            "Second.json": second,
            "Second.assets.json": manifest,
            "manifest.json": {"artifacts": artifacts},
        }.items():
            (self.directory / name).write_text(json.dumps(content))

    def _stack(self, name: str, dependencies: list[str]) -> dict[str, Any]:
        properties = {"templateFile": f"{name}.json", "stackName": f"{self.prefix}-{name}"}
        return {"type": "aws:cloudformation:stack", "properties": properties, "dependencies": dependencies}


@pytest.fixture
def assembly(tmp_path: Path) -> Assembly:
    return Assembly(tmp_path, tmp_path.name.replace("_", "-"))


def test_an_assembly_is_deployed_updated_and_then_unchanged(cloud: LocalCloud, assembly: Assembly) -> None:
    lines: list[str] = []
    outputs = deploy(assembly.directory, cloud, lines.append)
    name = outputs[f"{assembly.prefix}-Second"]["Name"]
    answer = lambda: json.load(cloud.client("lambda").invoke(FunctionName=name)["Payload"])  # noqa: E731
    assert answer() == "one"
    assert lines[0].startswith(f"{assembly.prefix}-First: created")

    lines.clear()
    deploy(assembly.directory, cloud, lines.append)
    assert [line.rsplit(" ", 1)[1] for line in lines] == ["unchanged", "unchanged"]

    assembly.code("two")
    assembly.write()
    lines.clear()
    assert deploy(assembly.directory, cloud, lines.append)[f"{assembly.prefix}-Second"]["Name"] == name
    assert ["updated" in line for line in lines] == [False, True]
    assert answer() == "two"


def test_executable_assets_run_and_images_are_registered(cloud: LocalCloud, assembly: Assembly) -> None:
    deploy(assembly.directory, cloud, lambda _: None)
    token = cloud.client("ssm").get_parameter(Name=f"/{assembly.prefix}/token")["Parameter"]["Value"]
    assert token == "t"
    assert "123456789012.dkr.ecr.us-east-1.amazonaws.com/r:t" in cloud.status()["images"]


def test_a_changed_entrypoint_runs_after_the_next_deployment(cloud: LocalCloud, assembly: Assembly) -> None:
    dockerfile = assembly.directory / "image" / "Dockerfile"
    batch = cloud.client("batch")
    image = "123456789012.dkr.ecr.us-east-1.amazonaws.com/r:t"
    requirements = [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "512"}]
    name = assembly.prefix
    compute = {"type": "FARGATE", "maxvCpus": 1, "subnets": ["s"], "securityGroupIds": ["g"]}
    environment = {
        "Type": "AWS::Batch::ComputeEnvironment",
        "Properties": {"ComputeEnvironmentName": name, "Type": "MANAGED", "ComputeResources": compute},
    }
    assembly.write(Environment=environment)
    deploy(assembly.directory, cloud, lambda _: None)
    order = [{"order": 1, "computeEnvironment": name}]
    queue = batch.create_job_queue(jobQueueName=name, priority=1, state="ENABLED", computeEnvironmentOrder=order)
    batch.register_job_definition(
        jobDefinitionName=name,
        type="container",
        containerProperties={"image": image, "resourceRequirements": requirements},
    )
    codes = []
    for code in (3, 4):
        dockerfile.write_text(f"FROM x\nENTRYPOINT exit {code}\n")
        deploy(assembly.directory, cloud, lambda _: None)
        job = batch.submit_job(jobName="job", jobQueue=queue["jobQueueArn"], jobDefinition=name)["jobId"]
        codes.append(exit_code(cloud, job))
    assert codes == [3, 4]


def exit_code(cloud: LocalCloud, job_id: str) -> int:
    """Wait for a job to fail; return its exit code."""

    def failed() -> Any:
        job = cloud.client("batch").describe_jobs(jobs=[job_id])["jobs"][0]
        return job if job["status"] == "FAILED" else None

    return wait_until(failed)["container"]["exitCode"]


def test_a_failure_names_stack_resource_and_reason(cloud: LocalCloud, assembly: Assembly) -> None:
    assembly.write(Bad={"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "not a name!"}})
    with pytest.raises(DeployError) as failure:
        deploy(assembly.directory, cloud, lambda _: None)
    message = str(failure.value)
    assert f"Stack {assembly.prefix}-First" in message
    assert "Bad (AWS::SQS::Queue)" in message
    assert "alphanumeric" in message


def test_the_error_of_a_failed_asset_command_quotes_its_output(cloud: LocalCloud, assembly: Assembly) -> None:
    (assembly.directory / "make.py").write_text("raise SystemExit('no token in config.json')")
    with pytest.raises(DeployError, match=r"no token in config\.json"):
        deploy(assembly.directory, cloud, lambda _: None)


def test_accepted_types_are_printed(cloud: LocalCloud, assembly: Assembly) -> None:
    lines: list[str] = []
    assembly.write(Metadata={"Type": "AWS::CDK::Metadata", "Properties": {"Analytics": "v2"}})
    deploy(assembly.directory, cloud, lines.append)
    assert any("AWS::CDK::Metadata is accepted but not created" in line for line in lines)


def test_a_dockerfile_is_read_as_by_docker(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(
        "# syntax=docker/dockerfile:1\nARG VERSION=3\nFROM python:${VERSION} AS base\n"
        "ENV A=1 B='two words' \\\n    E=${A}-x\nENV C=${A}-x\nENV OLD style value\nWORKDIR /app\n"
        'ENTRYPOINT ["tini", "--"]\nCMD ["old"]\n'
        "FROM scratch AS unused\nENV A=9\n"
        "FROM base\nARG VERSION\nWORKDIR sub\nENV V=$VERSION D=${NONE:-dflt}\n# a comment\n"
        'ENTRYPOINT ["python", \\\n  "-m", "worker"]\nCMD run --fast\n'
    )
    image = read_image(tmp_path / "Dockerfile")
    assert image.entrypoint == ("python", "-m", "worker")
    assert image.command == ("/bin/sh", "-c", "run --fast")
    assert image.workdir == "/app/sub"
    expected = {"A": "1", "B": "two words", "C": "1-x", "E": "-x", "OLD": "style value", "V": "3", "D": "dflt"}
    assert dict(image.environment) == expected


def test_a_missing_dockerfile_is_named(tmp_path: Path) -> None:
    with pytest.raises(DockerfileError, match="Dockerfile cannot be read"):
        read_image(tmp_path / "Dockerfile")
