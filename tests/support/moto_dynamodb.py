"""moto's DynamoDB in the process of the tests, with the patches of the local cloud."""

import pytest
from moto.core.serialize import BaseJSONSerializer
from moto.dynamodb.models.dynamo_type import DynamoType
from moto.dynamodb.responses import DynamoHandler

from cosmos_batch.local.moto_patches import dynamodb


def patch_dynamodb(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make conditional writes atomic, which moto's are not if several threads write, sums exact, and answers fast."""
    monkeypatch.setattr(DynamoHandler, "call_action", dynamodb.serve_alone)
    monkeypatch.setattr(DynamoType, "__add__", dynamodb.added)
    monkeypatch.setattr(BaseJSONSerializer, "_serialize_type_structure", dynamodb.serialize_structure)
