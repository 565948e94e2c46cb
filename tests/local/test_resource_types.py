"""Every CloudFormation type of `resource_types` is created, updated and deleted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cosmos_batch.local.cloud import LocalCloud
from cosmos_batch.local.cloudformation.resource_types import ACCEPTED_TYPES
from tests.local.resource_types import AROUND, TYPES, Case
from tests.local.support import CODE_BUCKET, Stack, zipped

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "local-cloud.md"


@pytest.fixture(scope="module")
def around(cloud: LocalCloud) -> Iterator[Stack]:
    cloud.client("s3").put_object(Bucket=CODE_BUCKET, Key="layer.zip", Body=zipped({"a.py": ""}))
    stack = Stack(cloud)
    yield stack
    stack.delete()


@pytest.mark.parametrize("tested", TYPES, ids=lambda tested: tested.name)
def test_a_type_is_created_updated_and_deleted(cloud: LocalCloud, around: Stack, tested: Case) -> None:
    name = f"Tested{tested.name.replace('::', '')}"

    def put(change: dict[str, Any]) -> Any:
        properties = {**tested.properties, **change}
        around.put({**AROUND, name: {"Type": tested.name, "Properties": properties}})
        described = cloud.client("cloudformation").describe_stack_resource(
            StackName=around.name, LogicalResourceId=name
        )
        identifier = described["StackResourceDetail"]["PhysicalResourceId"]
        return identifier, tested.read(cloud.client, identifier)

    assert put({})[1] == tested.created
    identifier, seen = put(tested.change)
    assert seen == tested.updated
    around.put(AROUND)
    try:
        left = tested.read(cloud.client, identifier)
    except (ClientError, LookupError, ValueError, StopIteration, TypeError):
        left = None
    assert left is None


def test_the_page_lists_the_types_that_are_accepted_and_not_created() -> None:
    assert set(ACCEPTED_TYPES) == {"AWS::CDK::Metadata"}
    listed = re.findall(r"^\| `(AWS::\w+::\w+)` \| (.*) \|$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    assert dict(listed) == ACCEPTED_TYPES
