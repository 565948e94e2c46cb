"""Collect everything that a deployment writes to places that others may read."""

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cosmos_batch.local.cloud import LocalCloud


def open_places(cloud: LocalCloud) -> dict[str, bytes]:
    """Return all that is deployed, uploaded for a deployment or logged, by `kind/name`, but not the secrets."""
    return dict((*_described(cloud), *_uploaded(cloud), *_files(cloud.home / "logs")))


def files(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder, and the contents of archives among them."""
    return dict(_files(folder))


def kinds(places: dict[str, bytes]) -> set[str]:
    """Return the kinds of places."""
    return {name.partition("/")[0] for name in places}


def holding(text: str, places: dict[str, bytes]) -> list[str]:
    """Return the places that contain a text."""
    return sorted(name for name, content in places.items() if text.encode() in content)


def _described(cloud: LocalCloud) -> Iterator[tuple[str, bytes]]:
    look = cloud.client
    projects, builds = look("codebuild").list_projects()["projects"], look("codebuild").list_builds()["ids"]
    descriptions: dict[str, list[Any]] = {
        "function": [function for page in _pages(look("lambda"), "list_functions") for function in page["Functions"]],
        "job definition": look("batch").describe_job_definitions(status="ACTIVE")["jobDefinitions"],
        "project": look("codebuild").batch_get_projects(names=projects)["projects"] if projects else [],
        "build": look("codebuild").batch_get_builds(ids=builds)["builds"] if builds else [],
        "machine": [
            look("stepfunctions").describe_state_machine(stateMachineArn=machine["stateMachineArn"])
            for machine in look("stepfunctions").list_state_machines()["stateMachines"]
        ],
        "parameter": [
            look("ssm").get_parameter(Name=parameter["Name"])
            for page in _pages(look("ssm"), "describe_parameters")
            for parameter in page["Parameters"]
        ],
        "log group": [
            look("logs").filter_log_events(logGroupName=log_group["logGroupName"])["events"]
            for log_group in look("logs").describe_log_groups()["logGroups"]
        ],
        "stack": look("cloudformation").describe_stacks()["Stacks"],
    }
    descriptions["template"] = [
        look("cloudformation").get_template(StackName=stack["StackName"]) for stack in descriptions["stack"]
    ]
    for kind, described in descriptions.items():
        for number, one in enumerate(described):
            yield f"{kind}/{number}", json.dumps(one, default=str).encode()


def _uploaded(cloud: LocalCloud) -> Iterator[tuple[str, bytes]]:
    s3 = cloud.client("s3")
    for bucket in s3.list_buckets()["Buckets"]:
        for page in _pages(s3, "list_objects_v2", Bucket=bucket["Name"]):
            for item in page.get("Contents", []):
                body = s3.get_object(Bucket=bucket["Name"], Key=item["Key"])["Body"].read()
                yield from _unpacked(f"object/{item['Key']}", body)


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in folder.rglob("*"):
        if path.is_file():
            yield from _unpacked(f"file/{path.relative_to(folder)}", path.read_bytes())


def _unpacked(name: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    yield name, content
    if zipfile.is_zipfile(io.BytesIO(content)):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for member in archive.namelist():
                yield f"{name}/{member}", archive.read(member)


def _pages(client: Any, operation: str, **arguments: Any) -> Iterator[Any]:
    yield from client.get_paginator(operation).paginate(**arguments)
