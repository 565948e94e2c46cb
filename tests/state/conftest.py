"""The state table on moto."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import boto3
import pytest
from moto import mock_aws
from moto.dynamodb.models.dynamo_type import DynamoType
from moto.dynamodb.responses import DynamoHandler

from cosmos_batch.local.moto_patches import dynamodb
from cosmos_batch.state import Table

KEY_SCHEMA = [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}]
KEY_TYPES = [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")]


@cache
def client() -> Any:
    return boto3.client("dynamodb", region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test")


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[Table]:
    monkeypatch.setattr(DynamoHandler, "call_action", dynamodb.serve_alone)  # moto's conditions are not atomic
    monkeypatch.setattr(DynamoType, "__add__", dynamodb.added)
    with mock_aws():
        client().create_table(
            TableName="state", KeySchema=KEY_SCHEMA, AttributeDefinitions=KEY_TYPES, BillingMode="PAY_PER_REQUEST"
        )
        yield Table(client(), "state")
