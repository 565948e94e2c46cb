"""Computes the units that AWS bills for a call: DynamoDB by the size of the row, SQS by that of the messages."""

from __future__ import annotations

import json
from typing import Any

from cosmos_batch.local import backends

_MEASURED = ("dynamodb", "sqs")
_BYTES_PER_WRITE, _BYTES_PER_READ = 1024, 4096  # strongly consistent reads
_BYTES_PER_REQUEST = 64 * 1024
_WRITES = ("PutItem", "UpdateItem", "DeleteItem")


def is_measured(service: str) -> bool:
    """Return whether a call of the service may be billed as more than one unit."""
    return service in _MEASURED


def units_of(service: str, operation: str, request: Any, answer: str | bytes) -> int:
    """Return the units of a call that was served. A write whose condition was false is billed by the row, too.

    `request` has the parameters of the call; `answer` is the body of the answer.
    """
    if service == "sqs":
        return _whole(max(len(json.dumps(request, default=str)), len(answer)), _BYTES_PER_REQUEST)
    key = request.get("Key") or request.get("Item")
    if key is None:  # a query
        return _whole(len(answer), _BYTES_PER_READ)
    return _whole(_row_size(request["TableName"], key), _BYTES_PER_WRITE if operation in _WRITES else _BYTES_PER_READ)


def _row_size(table_name: str, attributes: dict[str, Any]) -> int:
    """Return the bytes of the row that has the key among these attributes; 0 if there is none."""
    table = backends.tables().get_table(table_name)
    names = [name for name in (table.hash_key_attr, table.range_key_attr) if name is not None]
    row = backends.tables().get_item(table_name, {name: attributes[name] for name in names})
    return 0 if row is None else int(row.size())


def _whole(size: int, unit: int) -> int:
    return max(1, -(-size // unit))
