"""DynamoDB's conditional writes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from cosmos_batch.local.cloud import LocalCloud


def test_one_of_several_concurrent_conditional_writes_succeeds(cloud: LocalCloud) -> None:
    client = cloud.client("dynamodb")
    client.create_table(
        TableName="decisions",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
    )

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
