"""The state table on moto."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import boto3
import pytest
from moto import mock_aws

from cosmos_batch.state import Table
from tests.support.moto_dynamodb import patch_dynamodb

KEY_SCHEMA = [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}]
KEY_TYPES = [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")]


@cache
def client() -> Any:
    return boto3.client("dynamodb", region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test")


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[Table]:
    patch_dynamodb(monkeypatch)
    with mock_aws():
        client().create_table(
            TableName="state", KeySchema=KEY_SCHEMA, AttributeDefinitions=KEY_TYPES, BillingMode="PAY_PER_REQUEST"
        )
        yield Table(client(), "state")
