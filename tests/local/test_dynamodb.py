"""DynamoDB's conditional writes, and its values of every type."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from cosmos_batch.local.cloud import LocalCloud


def with_table(cloud: LocalCloud, name: str) -> Any:
    """Return a client of DynamoDB, which has a table with this name and the key `pk`."""
    client = cloud.client("dynamodb")
    client.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
    )
    return client


def test_one_of_several_concurrent_conditional_writes_succeeds(cloud: LocalCloud) -> None:
    client = with_table(cloud, "decisions")

    def decide(attempt: int) -> int:
        try:
            client.update_item(
                TableName="decisions",
                Key={"pk": {"S": f"job-{attempt // 8}"}},
                UpdateExpression="SET winner = :me",
                ConditionExpression="attribute_not_exists(winner)",
                ExpressionAttributeValues={":me": {"N": str(attempt)}},
            )
        except client.exceptions.ConditionalCheckFailedException:
            return 0
        return 1

    with ThreadPoolExecutor(8) as threads:
        won = list(threads.map(decide, range(30 * 8)))
    assert [sum(won[start : start + 8]) for start in range(0, len(won), 8)] == [1] * 30


def test_values_of_every_type_are_read_as_they_were_written(cloud: LocalCloud) -> None:
    client = with_table(cloud, "values")
    item = {
        "pk": {"S": "é"},
        "empty": {"S": ""},
        "N": {"N": "-1.5"},
        "B": {"B": b"\x00\xff"},
        "SS": {"SS": ["a", "b"]},
        "NS": {"NS": ["1", "2"]},
        "BS": {"BS": [b"1", b"2"]},
        "NULL": {"NULL": True},
        "BOOL": {"BOOL": False},
        "L": {"L": [{"S": "a"}, {"L": []}, {"M": {"S": {"N": "1"}, "N": {"BOOL": True}}}]},
        "M": {"M": {"none": {"M": {}}, "M": {"M": {"B": {"B": b"b"}}}}},
    }
    client.put_item(TableName="values", Item=item)
    assert client.get_item(TableName="values", Key={"pk": {"S": "é"}})["Item"] == item
    assert client.scan(TableName="values")["Items"] == [item]
