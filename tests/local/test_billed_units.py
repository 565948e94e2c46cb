"""The units that AWS bills for a call, by the size of its row or of its messages."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from cosmos_batch.local.billed_units import units_of

KEY = {"pk": {"S": "job#1"}, "sk": {"S": "job"}}


@pytest.fixture(scope="module")
def dynamodb() -> Iterator[Any]:
    with mock_aws():
        client = boto3.client("dynamodb", "us-east-1")
        client.create_table(
            TableName="state",
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
        )
        yield client


@pytest.mark.parametrize(("size", "writes", "reads"), [(10, 1, 1), (1500, 2, 1), (5000, 5, 2)])
def test_a_row_is_billed_by_its_size(dynamodb: Any, size: int, writes: int, reads: int) -> None:
    row = {**KEY, "text": {"S": "x" * size}}
    dynamodb.put_item(TableName="state", Item=row)
    assert units_of("dynamodb", "PutItem", {"TableName": "state", "Item": row}, "{}") == writes
    assert units_of("dynamodb", "UpdateItem", {"TableName": "state", "Key": KEY}, "{}") == writes
    assert units_of("dynamodb", "GetItem", {"TableName": "state", "Key": KEY}, "{}") == reads


def test_a_row_that_is_not_there_is_billed_as_one_unit(dynamodb: Any) -> None:
    missing = {**KEY, "pk": {"S": "job#2"}}
    assert units_of("dynamodb", "GetItem", {"TableName": "state", "Key": missing}, "{}") == 1


def test_a_query_is_billed_by_what_it_returns(dynamodb: Any) -> None:
    assert units_of("dynamodb", "Query", {"TableName": "state"}, "x" * 9000) == 3


def test_messages_are_billed_by_64_kilobytes() -> None:
    assert units_of("sqs", "SendMessageBatch", {"Entries": [{"MessageBody": "x" * 70_000}]}, "{}") == 2
    assert units_of("sqs", "ReceiveMessage", {}, "x" * 10) == 1
