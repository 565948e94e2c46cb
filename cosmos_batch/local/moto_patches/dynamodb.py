"""Patches of moto's DynamoDB: requests are atomic, sums exact, values written fast, and updated tables keep rows."""
# ruff: noqa: ARG001 -- the signatures are moto's.

from __future__ import annotations

import threading
from decimal import Decimal
from typing import Any

from moto.core.serialize import BaseJSONSerializer, StructureShape
from moto.dynamodb.exceptions import IncorrectDataType
from moto.dynamodb.models.dynamo_type import DDBType, DynamoType
from moto.dynamodb.models.table import Table
from moto.dynamodb.responses import DynamoHandler

from cosmos_batch.local.cloudformation.simulated_type import Properties
from cosmos_batch.local.moto_patches.registry import RESOURCE_PAGES, patch, replace
from cosmos_batch.local.moto_patches.resources import configure_after

_TABLE_PAGE = f"{RESOURCE_PAGES}aws-resource-dynamodb-table.html"

_lock = threading.RLock()
_moto_call_action = DynamoHandler.call_action
_moto_serialize_structure = BaseJSONSerializer._serialize_type_structure


@patch(
    "dynamodb.requests-are-atomic",
    brings="A conditional write decides its condition and writes in one step, and nobody reads a half-written item.",
    moto="Decides the condition, makes an item of the key alone, then fills it attribute by attribute, while the "
    "threads of other requests decide, write and read.",
    source="https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/WorkingWithItems.html",
)
def _serve_one_at_a_time() -> None:
    replace(DynamoHandler, "call_action", serve_alone)


def serve_alone(self: DynamoHandler) -> Any:
    """Serve a request while no other one is served, until its answer is text."""
    with _lock:
        return _moto_call_action(self)


@patch(
    "dynamodb.sums-of-small-numbers",
    brings="A number is added to any other, however small.",
    moto="Reads a number that it has written as 1E-7 as an integer, and fails.",
    source="https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/HowItWorks.NamingRulesDataTypes.html",
)
def _add_exactly() -> None:
    replace(DynamoType, "__add__", added)


def added(self: DynamoType, other: DynamoType) -> DynamoType:
    """Return the sum of two numbers, written without an exponent."""
    if not (self.is_number() and other.is_number()):
        raise IncorrectDataType
    return DynamoType({DDBType.NUMBER: f"{Decimal(self.value) + Decimal(other.value):f}"})


@patch(
    "dynamodb.values-are-written-fast",
    brings="Speed: of the ten members that an attribute value can have, the one that it has is written.",
    moto="Looks for all ten, each of them under two or four names.",
    source="https://github.com/getmoto/moto/blob/master/moto/core/serialize.py",
)
def _write_values_fast() -> None:
    replace(BaseJSONSerializer, "_serialize_type_structure", serialize_structure)


def serialize_structure(
    self: BaseJSONSerializer, serialized: dict[str, Any], value: Any, shape: StructureShape, key: str
) -> None:
    """Add a structure to its parent as JSON, as moto does; an attribute value without looking for other members."""
    members = list(value.items()) if shape.name == "AttributeValue" and isinstance(value, dict) else []
    if len(members) != 1 or members[0][0] not in shape.members or members[0][1] is None or not key:
        _moto_serialize_structure(self, serialized, value, shape, key)
        return
    [(name, content)] = members
    written: dict[str, Any] = {}
    self._serialize(written, content, shape.members[name], name)
    self._default_serialize(serialized, written, shape, key)


@patch(
    "dynamodb.updated-tables-keep-their-rows",
    brings="A stack update changes the indices and the time to live of a table in place.",
    moto="Makes the table anew, without its rows.",
    source=_TABLE_PAGE,
)
def _keep_table() -> None:
    def update(
        cls: Any, /, original_resource: Table, new_resource_name: str, cloudformation_json: Any, **_: Any
    ) -> Table:
        return original_resource

    replace(Table, "update_from_cloudformation_json", classmethod(update))
    configure_after(Table, _configure_table)


def _configure_table(table: Table, properties: Properties) -> None:
    if "GlobalSecondaryIndexes" in properties:
        table.attr = properties["AttributeDefinitions"]
    if "TimeToLiveSpecification" in properties:
        ttl = properties["TimeToLiveSpecification"]
        table.ttl["TimeToLiveStatus"] = "ENABLED" if ttl["Enabled"] else "DISABLED"
        table.ttl["AttributeName"] = ttl["AttributeName"]
