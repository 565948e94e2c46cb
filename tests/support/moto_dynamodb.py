"""moto's DynamoDB in the process of the tests, with the patches of the local cloud."""

import pytest
from moto.dynamodb.models.dynamo_type import DynamoType
from moto.dynamodb.responses import DynamoHandler

from cosmos_batch.local.moto_patches import dynamodb


def patch_dynamodb(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make conditional writes atomic, which moto's are not if several threads write, and sums exact."""
    monkeypatch.setattr(DynamoHandler, "call_action", dynamodb.serve_alone)
    monkeypatch.setattr(DynamoType, "__add__", dynamodb.added)
