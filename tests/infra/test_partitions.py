"""Templates and code that hold in GovCloud and in China."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.infra.assembly import Assembly
from tests.infra.examples import NAMES, example

ROOT = Path(__file__).resolve().parents[2]
# The local cloud plays us-east-1 of the first partition.
CODE = [
    path
    for folder in ("lambdas", "cosmos_batch", "infra", "scripts")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if "local" not in path.relative_to(ROOT).parts
]
PARTITIONS = {
    "aws-us-gov": ("us-gov-west-1", "amazonaws.com"),
    "aws-cn": ("cn-north-1", "amazonaws.com.cn"),
}
# Names that are the same in every partition: service principals as IAM writes them, also in the paths of their roles,
# and endpoint service names.
SAME_EVERYWHERE = re.compile(r"^[a-z0-9.-]+\.amazonaws\.com$|^com\.amazonaws\.|:role/aws-service-role/")


def resolved(value: Any, partition: str) -> Any:
    """A template's value as CloudFormation would have it there; what it cannot know stays."""
    region, suffix = PARTITIONS[partition]
    known = {
        "AWS::Partition": partition,
        "AWS::Region": region,
        "AWS::URLSuffix": suffix,
        "AWS::AccountId": "123456789012",
    }
    if isinstance(value, list):
        return [resolved(one, partition) for one in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"Ref"}:
        return known.get(value["Ref"], value["Ref"])
    if value.keys() == {"Fn::Join"}:
        separator, parts = resolved(value["Fn::Join"], partition)
        return separator.join(map(str, parts)) if isinstance(parts, list) else str(parts)
    return {name: resolved(one, partition) for name, one in value.items()}


def texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for one in value.values() for text in texts(one)]
    if isinstance(value, list):
        return [text for one in value for text in texts(one)]
    return [value] if isinstance(value, str) else []


def templates(name: str) -> dict[str, Any]:
    assembly: Assembly = example(name)
    return assembly.templates


@pytest.mark.parametrize("name", NAMES)
def test_no_template_takes_a_partition_for_granted(name: str) -> None:
    assert not [stack for stack, template in templates(name).items() if "arn:aws:" in json.dumps(template)]


@pytest.mark.parametrize("path", CODE, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_code_takes_a_partition_for_granted(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "arn:aws:" not in text
    assert not re.search(r"https://[^\s\"']*amazonaws\.com", text)


@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("name", NAMES)
def test_arns_and_addresses_are_those_of_the_partition(name: str, partition: str) -> None:
    _, suffix = PARTITIONS[partition]
    found = texts(resolved(templates(name), partition))
    arns = {text for text in found if text.startswith("arn:")}
    assert arns and all(text.startswith(f"arn:{partition}:") for text in arns)
    addresses = {text for text in found if "amazonaws.com" in text and not SAME_EVERYWHERE.search(text)}
    assert not [text for text in addresses if suffix not in text]
    assert not [text for text in arns if "us-east-1" in text]
