"""Deployment of a synthesized CDK assembly to a local cloud: its assets, then its stacks, through CloudFormation."""

from __future__ import annotations

import io
import json
import os
import subprocess
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from cosmos_batch.local.cloud import LocalCloud
from cosmos_batch.local.cloudformation.resource_types import ACCEPTED_TYPES
from cosmos_batch.local.containers.dockerfile import DockerfileError, read_image
from cosmos_batch.local.runtime import ACCOUNT, REGION

BOOTSTRAP_VERSION = "30"


class DeployError(RuntimeError):
    """A deployment failed; the message names the stack, the resource and the reason."""


def deploy(assembly_dir: Path, cloud: LocalCloud, on_stack: Callable[[str], None] = print) -> dict[str, dict[str, str]]:
    """Deploy every stack of a cloud assembly, each after the stacks on which it depends.

    Parameters
    ----------
    assembly_dir
        The directory that ``cdk synth`` wrote.
    cloud
        The cloud to which it is deployed.
    on_stack
        Called with a line for a person when a stack is complete, and for each type that is accepted but not created.

    Returns
    -------
    dict
        The outputs of each stack, by stack name.

    Raises
    ------
    DeployError
        An asset could not be published, or a resource could not be created.
    """
    artifacts = json.loads((assembly_dir / "manifest.json").read_text())["artifacts"]
    parameters = {"Name": "/cdk-bootstrap/hnb659fds/version", "Value": BOOTSTRAP_VERSION, "Type": "String"}
    cloud.client("ssm").put_parameter(**parameters, Overwrite=True)
    publisher = _Publisher(assembly_dir, cloud)
    outputs: dict[str, dict[str, str]] = {}
    for name in _stacks_in_order(artifacts):
        properties = artifacts[name]["properties"]
        stack, template = properties.get("stackName", name), (assembly_dir / properties["templateFile"]).read_text()
        publisher.publish(_asset_manifest(artifacts[name], artifacts, assembly_dir))
        outputs[stack] = _deploy_stack(cloud, stack, template, properties.get("parameters", {}), on_stack)
    return outputs


def _stacks_in_order(artifacts: dict[str, Any]) -> list[str]:
    ordered: dict[str, None] = {}

    def visit(name: str) -> None:
        for dependency in artifacts[name].get("dependencies", []):
            visit(dependency)
        if artifacts[name]["type"] == "aws:cloudformation:stack":
            ordered[name] = None

    for name in artifacts:
        visit(name)
    return list(ordered)


def _asset_manifest(stack: dict[str, Any], artifacts: dict[str, Any], assembly_dir: Path) -> dict[str, Any]:
    for name in stack.get("dependencies", []):
        if artifacts[name]["type"] == "cdk:asset-manifest":
            return json.loads((assembly_dir / artifacts[name]["properties"]["file"]).read_text())
    return {}


# --- stacks ----------------------------------------------------------------------------------------------------------


def _deploy_stack(
    cloud: LocalCloud, name: str, template: str, parameters: dict[str, str], on_stack: Callable[[str], None]
) -> dict[str, str]:
    client, started = cloud.client("cloudformation"), time.monotonic()
    existing = _existing_template(client, name)
    change = client.update_stack if existing else client.create_stack
    if existing == json.loads(template):
        on_stack(f"{name}: unchanged")
    else:
        try:
            change(
                StackName=name,
                TemplateBody=template,
                Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
                Capabilities=["CAPABILITY_NAMED_IAM"],
            )
        except ClientError as error:
            raise DeployError(f"Stack {name} could not be deployed. {error.response['Error']['Message']}") from error
        verb = "updated" if existing else "created"
        on_stack(f"{name}: {verb} in {time.monotonic() - started:.1f} s")
    for line in _accepted_types(template):
        on_stack(f"{name}: {line}")
    described = client.describe_stacks(StackName=name)["Stacks"][0]
    return {output["OutputKey"]: output["OutputValue"] for output in described.get("Outputs", [])}


def _existing_template(client: Any, name: str) -> dict[str, Any] | None:
    try:
        return json.loads(json.dumps(client.get_template(StackName=name)["TemplateBody"]))
    except ClientError:
        return None


def _accepted_types(template: str) -> Iterator[str]:
    types = {resource["Type"] for resource in json.loads(template)["Resources"].values()}
    for name in sorted(types & ACCEPTED_TYPES.keys()):
        yield f"{name} is accepted but not created: {ACCEPTED_TYPES[name]}"


# --- assets ----------------------------------------------------------------------------------------------------------


class _Publisher:
    """Publishes the assets of an assembly to the buckets that the templates name, each once."""

    def __init__(self, assembly_dir: Path, cloud: LocalCloud) -> None:
        self._assembly_dir = assembly_dir
        self._cloud = cloud
        self._s3 = cloud.client("s3")
        self._buckets: set[str] = set()

    def publish(self, manifest: dict[str, Any]) -> None:
        """Publish the file and image assets of one stack."""
        for asset in manifest.get("files", {}).values():
            for destination in asset["destinations"].values():
                self._publish_file(asset["source"], destination)
        images = manifest.get("dockerImages", {}).values()
        described = {uri: self._image(asset["source"]) for asset in images for uri in _image_uris(asset)}
        if described:
            self._cloud.register_images(described)

    def _publish_file(self, source: dict[str, Any], destination: dict[str, str]) -> None:
        bucket, key = _filled_in(destination["bucketName"]), _filled_in(destination["objectKey"])
        self._make_bucket(bucket)
        # The command of an executable asset runs at every deployment, as in CDK while the key does not exist: the cloud
        # in which it had an effect may be gone.
        if "executable" in source or not self._has(bucket, key):
            self._s3.put_object(Bucket=bucket, Key=key, Body=self._content(source))

    def _make_bucket(self, name: str) -> None:
        if name not in self._buckets:
            self._s3.create_bucket(Bucket=name)
            self._buckets.add(name)

    def _has(self, bucket: str, key: str) -> bool:
        try:
            self._s3.head_object(Bucket=bucket, Key=key)
        except ClientError:
            return False
        return True

    def _content(self, source: dict[str, Any]) -> bytes:
        path = (
            self._printed_path(source["executable"]) if "executable" in source else self._assembly_dir / source["path"]
        )
        return _zipped(path) if path.is_dir() else path.read_bytes()

    def _printed_path(self, argv: list[str]) -> Path:
        """Run an executable asset, with the operator's environment, and return the path that it prints."""
        environment = {**os.environ, **self._cloud.environment}
        ran = subprocess.run(argv, cwd=self._assembly_dir, env=environment, capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            raise DeployError(
                f"The asset command {argv[:2]} failed with exit code {ran.returncode}: {ran.stderr[-2000:]}"
            )
        return self._assembly_dir / ran.stdout.strip()

    def _image(self, source: dict[str, Any]) -> dict[str, Any]:
        if "directory" not in source:
            raise DeployError(f"The image asset {source} has no directory, so it has no Dockerfile to read")
        dockerfile = self._assembly_dir / source["directory"] / source.get("dockerFile", "Dockerfile")
        try:
            return vars(read_image(dockerfile, source.get("dockerBuildArgs"), source.get("dockerBuildTarget")))
        except DockerfileError as error:
            raise DeployError(str(error)) from error


def _image_uris(asset: dict[str, Any]) -> Iterator[str]:
    for destination in asset["destinations"].values():
        repository, tag = _filled_in(destination["repositoryName"]), _filled_in(destination["imageTag"])
        yield f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/{repository}:{tag}"


def _filled_in(text: str) -> str:
    places = {"${AWS::AccountId}": ACCOUNT, "${AWS::Region}": REGION, "${AWS::Partition}": "aws"}
    for placeholder, value in places.items():
        text = text.replace(placeholder, value)
    return text


def _zipped(directory: Path) -> bytes:
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in sorted(directory.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(directory))
    return body.getvalue()
