"""Every CloudFormation type of our templates is created, changed and deleted, or said to be accepted only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cosmos_batch.local.cloud import LocalCloud
from cosmos_batch.local.cloudformation.resource_types import ACCEPTED_TYPES
from tests.infra.examples import example
from tests.local.conftest import CODE_BUCKET, Stack, zipped
from tests.local.types import AROUND, TYPES, Type

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "local-cloud.md"
# Their tests are in test_cloudformation.py: a function answers for them.
CUSTOM = "Custom::"


@pytest.fixture(scope="module")
def around(cloud: LocalCloud) -> Iterator[Stack]:
    cloud.client("s3").put_object(Bucket=CODE_BUCKET, Key="layer.zip", Body=zipped({"a.py": ""}))
    stack = Stack(cloud)
    yield stack
    stack.delete()


@pytest.mark.parametrize("tested", TYPES, ids=lambda tested: tested.name)
def test_a_type_is_created_changed_and_deleted(cloud: LocalCloud, around: Stack, tested: Type) -> None:
    name = f"Tested{tested.name.replace('::', '')}"

    def put(change: dict[str, Any]) -> Any:
        properties = {**tested.properties, **change}
        around.put({**AROUND, name: {"Type": tested.name, "Properties": properties}})
        described = cloud.client("cloudformation").describe_stack_resource(
            StackName=around.name, LogicalResourceId=name
        )
        identifier = described["StackResourceDetail"]["PhysicalResourceId"]
        return identifier, tested.look(cloud.client, identifier)

    assert put({})[1] == tested.made
    identifier, seen = put(tested.change)
    assert seen == tested.changed
    around.put(AROUND)
    try:
        left = tested.look(cloud.client, identifier)
    except (ClientError, LookupError, ValueError, StopIteration, TypeError):
        left = None
    assert left is None


def test_what_is_accepted_only_is_this_and_in_the_document() -> None:
    assert set(ACCEPTED_TYPES) == {"AWS::CDK::Metadata"}
    listed = re.findall(r"^\| `(AWS::\w+::\w+)` \| (.*) \|$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    assert dict(listed) == ACCEPTED_TYPES


def test_every_type_of_our_templates_is_tested_or_accepted() -> None:
    known = {tested.name for tested in TYPES} | set(ACCEPTED_TYPES)
    templates = example("everything").templates.values()
    types = {resource["Type"] for template in templates for resource in template["Resources"].values()}
    assert {name for name in types - known if not name.startswith(CUSTOM)} == set()
