"""Managed policies that belong together, because IAM limits the length of one."""

import json
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.constructs.asset_buckets import AssetBucket

# docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html. White space does not count.
MAX_CHARACTERS = 6144
# How long a name or an ARN of our own resources is, on average and rounded up, and what CloudFormation knows by itself.
_REFERENCE = "r" * 75
_PSEUDO_PARAMETERS = {
    "AWS::AccountId": "123456789012",
    "AWS::Partition": "aws",
    "AWS::Region": "ap-southeast-1",
    "AWS::StackName": "CosmosBatch-Pipelines",
    "AWS::URLSuffix": "amazonaws.com",
}

Grant = Callable[[iam.ManagedPolicy, Sequence[AssetBucket]], None]


def create_policies(
    scope: Construct, name: str, description: str, assets: Sequence[AssetBucket], first: Grant, further: Grant
) -> list[iam.ManagedPolicy]:
    """Create a managed policy, and further ones for the asset buckets for which it has no room.

    Who is given the first policy needs all of them.

    Parameters
    ----------
    name
        Construct id of the first policy. The second one has the same with a 2.
    first
        Allows the first policy what it is for, with some of the asset buckets.
    further
        Allows another policy to use some of the asset buckets as the first one does.
    """
    policies: list[iam.ManagedPolicy] = []
    grant, rest = first, list(assets)
    while rest or not policies:
        construct_id = name if not policies else f"{name}{len(policies) + 1}"
        count = max(_count_that_fits(Stack.of(scope), grant, rest), min(1, len(policies)))
        policies.append(iam.ManagedPolicy(scope, construct_id, description=description))
        grant(policies[-1], rest[:count])
        grant, rest = further, rest[count:]
    return policies


def _count_that_fits(stack: Stack, grant: Grant, assets: Sequence[AssetBucket]) -> int:
    """Return how many of the asset buckets, from the first on, one policy has room for."""

    def length(count: int) -> int:
        trial = iam.ManagedPolicy(Stack(), "Trial")  # in a stack of its own, which nobody deploys
        grant(trial, assets[:count])
        return _length(stack, trial.document)

    return bisect_right(range(len(assets) + 1), MAX_CHARACTERS, key=length) - 1


def _length(stack: Stack, document: iam.PolicyDocument) -> int:
    """Return about how many characters a document has, whose statements CDK merges."""
    merged = iam.PolicyDocument(minimize=True)
    for statement in document.to_json()["Statement"]:
        merged.add_statements(iam.PolicyStatement.from_json(statement))
    return len(json.dumps(_as_deployed(stack.resolve(merged)), separators=(",", ":")))


def _as_deployed(value: Any) -> Any:
    """Return a resolved value with a text in place of each function of CloudFormation."""
    if isinstance(value, list):
        return [_as_deployed(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "Fn::Join" in value:
        separator, parts = value["Fn::Join"]
        return str(separator).join(_as_deployed(part) for part in parts)
    if "Ref" in value:
        return _PSEUDO_PARAMETERS.get(value["Ref"], _REFERENCE)
    if any(key.startswith("Fn::") for key in value):
        return _REFERENCE
    return {key: _as_deployed(one) for key, one in value.items()}
