"""The state table in DynamoDB, with conditional writes for what must be decided only once.

| pk | sk | one for each |
|---|---|---|
| `job#<job id>` | `job` | job: `jobs` |
| `job#<job id>` | `callback` | task token that waits for a job: `callbacks` |
| `job#<job id>` | `report` | job whose end was published: `reports` |
| `job#<job id>` | `document#<attempt>` | attempt with a small document: `staged_documents` |
| `job#<job id>` | `group` | job of a run that callbacks wait for: `groups` |
| `group#<group id>` | `group` | run of one job or several that callbacks wait for: `groups` |
| `output#<bucket>/<key>` | `output` | reserved final key: `reserved_keys` |
| `run#<run id>` | `run` | run over many files: `runs` |
| `run#<run id>` | `shard#<shard>` | part of a run that was fed to its queue: `shards` |
| `run#<run id>` | `token#<shard>#<token id>` | task token that waits for a shard: `shards` |
| `run#<run id>` | `fed#<pipeline>` | run and pipeline, what was fed: `fed_items` |
| `feeding` | `turns` | table, when shards are fed: `feed_turns` |
| `runs` | `<start>#<run id>` | run, to list them by time: `runs` |
| `runs-active` | `<run id>` | run that has not ended: `runs` |
| `pipeline#<pipeline>` | `worker#<batch job id>` | worker: `workers` |
| `pipeline#<pipeline>` | `revision#<model>@<tag or branch>` | recorded commit of a model: `revisions` |
| `pipeline#<pipeline>` | `shortage#<start>` | period without capacity that has ended: `shortages` |
| `pipeline#<pipeline>` | `pipeline` | pipeline (its breaker and its measured pace): `workers` |
"""

import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

KEEP_SECONDS = 30 * 86_400  # rows of jobs and reservations; DynamoDB's TTL removes them

Item = dict[str, Any]


class ConditionFailed(Exception):  # noqa: N818 - an expected outcome, not a fault
    """The condition of a write was false, because another process has changed the row before."""


class TableRow(BaseModel):
    """Base of the models of rows. Unknown attributes are ignored, because newer code may have written them."""

    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, validate_by_alias=True, extra="ignore")


class Table:
    """The five calls of DynamoDB that are used, with plain Python values. Thread-safe, as boto3's clients are."""

    def __init__(self, client: Any, name: str) -> None:
        self._client = client
        self._name = name

    def get(self, pk: str, sk: str) -> Item | None:
        """Return the row, read with strong consistency, or None."""
        response = self._client.get_item(TableName=self._name, Key=_key(pk, sk), ConsistentRead=True)
        return _plain(response["Item"]) if "Item" in response else None

    def query(self, pk: str, sk_prefix: str = "") -> list[Item]:
        """Return all rows of a partition whose sort key has the prefix, in the order of their sort keys."""
        return list(self.iterate(pk, sk_prefix))

    def iterate(self, pk: str, sk_prefix: str = "", newest_first: bool = False) -> Iterator[Item]:
        """Yield the rows of a partition whose sort key has the prefix, in the order of these keys or backwards."""
        pages = self._client.get_paginator("query").paginate(
            TableName=self._name,
            ConsistentRead=True,
            ScanIndexForward=not newest_first,
            KeyConditionExpression="pk = :pk AND begins_with(sk, :sk)" if sk_prefix else "pk = :pk",
            ExpressionAttributeValues=_values({":pk": pk} | ({":sk": sk_prefix} if sk_prefix else {})),
        )
        return (_plain(item) for page in pages for item in page["Items"])

    def put_new(self, pk: str, sk: str, item: Item) -> None:
        """Write a new row. Raises ConditionFailed if it exists."""
        self._call(
            self._client.put_item,
            Item=_values({"pk": pk, "sk": sk, **_present(item)}),
            ConditionExpression="attribute_not_exists(pk)",
        )

    def delete(self, pk: str, sk: str) -> None:
        """Delete a row. It is no error if there is none."""
        self._client.delete_item(TableName=self._name, Key=_key(pk, sk))

    def update(
        self, pk: str, sk: str, expression: str, values: Mapping[str, Any] | None = None, condition: str | None = None
    ) -> Item:
        """Change a row and return the changed row. Raises ConditionFailed if `condition` is false.

        `expression` and `condition` refer to attributes as `#name` and to `values` as `:name`.
        """
        text = f"{expression} {condition or ''}"
        names = {word.strip("(),"): word.strip("(),").removeprefix("#") for word in _words(text) if word[0] == "#"}
        arguments: dict[str, Any] = {"ExpressionAttributeNames": names} if names else {}
        if values:
            arguments["ExpressionAttributeValues"] = _values({f":{name}": value for name, value in values.items()})
        if condition:
            arguments["ConditionExpression"] = condition
        response = self._call(
            self._client.update_item,
            Key=_key(pk, sk),
            UpdateExpression=expression,
            ReturnValues="ALL_NEW",
            **arguments,
        )
        return _plain(response["Attributes"])

    def _call(self, operation: Any, **arguments: Any) -> Any:
        try:
            return operation(TableName=self._name, **arguments)
        except self._client.exceptions.ConditionalCheckFailedException as error:
            raise ConditionFailed from error


def now() -> str:
    """Return the current time in UTC as ISO 8601 with milliseconds. Such texts sort by time."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def expires_at(keep_seconds: int = KEEP_SECONDS) -> int:
    """Return the value of the TTL attribute, in seconds since 1970, for a row that is written now."""
    return int(time.time()) + keep_seconds


@cache
def _serialize() -> Any:
    # Imported with the first row: importing boto3 takes long, and a function that ignores its event needs no row.
    from boto3.dynamodb.types import TypeSerializer

    return TypeSerializer().serialize


@cache
def _deserialize() -> Any:
    from boto3.dynamodb.types import TypeDeserializer

    return TypeDeserializer().deserialize


def _words(expression: str) -> list[str]:
    return expression.replace("(", " ").replace(".", " ").replace(",", " ").split()


def _key(pk: str, sk: str) -> Item:
    return {"pk": {"S": pk}, "sk": {"S": sk}}


def _present(item: Item) -> Item:
    return {name: value for name, value in item.items() if value is not None}


def _values(item: Mapping[str, Any]) -> Item:
    return {name: _serialize()(_storable(value)) for name, value in item.items()}


def _storable(value: Any) -> Any:
    if isinstance(value, float):
        return Decimal(str(value))
    if isinstance(value, dict):
        return {name: _storable(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_storable(inner) for inner in value]
    return value


def _plain(item: Item) -> Item:
    return {name: _number(_deserialize()(value)) for name, value in item.items()}


def _number(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, dict):
        return {name: _number(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_number(inner) for inner in value]
    return value
