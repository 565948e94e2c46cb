"""JSON Schemas of callers are resolved, or refused if they are invalid or too expensive to check."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from cosmos_batch.contract.json_schema import COUNT_LIMIT, DEPTH_LIMIT, REFUSED, SCHEMA_LIMIT, checked_schema, too_deep
from cosmos_batch.contract.parameters import Parameters, read_parameters


class Box(BaseModel):
    """A model of a caller's own, as pydantic writes its schema."""

    label: str


class Scene(BaseModel):
    """A model whose schema has a reference, and a reference beside a description."""

    main: Box
    others: list[Box]
    best: Box | None = None


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"items": schema}
    return schema


def test_references_are_resolved() -> None:
    found = checked_schema(Scene.model_json_schema())
    assert "$ref" not in json.dumps(found) and "$defs" not in found
    assert found["properties"]["main"]["properties"]["label"]["type"] == "string"
    assert found["properties"]["others"]["items"]["required"] == ["label"]
    assert checked_schema(found) == found


def test_keywords_beside_a_reference_are_kept() -> None:
    schema = {"$defs": {"n": {"type": "number"}}, "properties": {"a": {"$ref": "#/$defs/n", "minimum": 1}}}
    assert checked_schema(schema) == {"properties": {"a": {"minimum": 1, "allOf": [{"type": "number"}]}}}


def test_properties_may_have_the_names_of_keywords() -> None:
    schema = {"properties": {"pattern": {"type": "string"}, "$ref": {"enum": [{"$ref": "x"}]}, "$defs": {}}}
    assert checked_schema(schema) == schema


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "nope"}, "is no JSON schema"),
        ({"minimum": "a"}, "is no JSON schema (draft 2020-12): $.minimum: 'a' is not of type 'number'"),
        ({"properties": {"a": {"pattern": "(a+)+$"}}}, "uses 'pattern', which is not supported; leave it out"),
        ({"patternProperties": {"(a+)+$": {}}}, "uses 'patternProperties'"),
        ({"$ref": "#"}, "'#' does not refer to a part of the schema"),
        ({"$ref": "http://169.254.169.254/latest"}, "does not refer to a part of the schema"),
        ({"$ref": "#/$defs/no"}, "leads nowhere"),
        ({"$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"}, "refers to itself"),
        *(({"properties": {"a": {keyword: {}}}}, f"uses {keyword!r}, which is not") for keyword in REFUSED),
        ({"maxItems": 10**9}, "of more than 10,000 together; lower 'maxItems'"),
        ({"anyOf": [{"minLength": 5_000}, {"items": {"minProperties": 5_001}}]}, "lower 'minProperties'"),
        ({"minimum": -(10**16)}, "has a 'minimum' beyond 1,000,000,000,000,000"),
        ({"maxItems": float("nan")}, "is not JSON"),
        ({"maxItems": "many"}, "is no JSON schema"),
        (nested(DEPTH_LIMIT), "nested more than 64 levels deep"),
        (nested(100_000), "nested more than 64 levels deep"),
        ({"title": "x" * SCHEMA_LIMIT}, "allowed are 16,384"),
        ({"const": float("nan")}, "is not JSON"),
        ({"const": "\ud83d"}, "is not JSON"),
        ({"prompt": "x", "resoluton": "480p"}, "has no keyword of JSON Schema that an answer could be checked for"),
        ({"title": "Scene", "format": "date"}, "has no keyword of JSON Schema"),
        ({}, "has no keyword of JSON Schema"),
    ],
)
def test_invalid_and_unsupported_schemas_are_refused(schema: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)) as raised:
        checked_schema(schema)
    assert "\n" not in str(raised.value)


def test_keywords_that_do_not_constrain_an_answer_are_left_out() -> None:
    said = {"$schema": "x", "$id": "http://[::", "$comment": "c", "format": "date", "discriminator": {}}
    assert checked_schema({"type": "string", **said}) == {"type": "string"}
    assert checked_schema({"properties": {name: {} for name in said}}) == {"properties": {name: {} for name in said}}


def test_counts_up_to_the_limit_are_accepted() -> None:
    schema = {"type": "array", "minItems": 1, "maxItems": COUNT_LIMIT - 1}
    assert checked_schema(schema) == schema


def test_a_schema_that_grows_exponentially_is_refused_before_it_is_resolved() -> None:
    definitions = {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)}
    with pytest.raises(ValueError, match="references written out"):
        checked_schema({"$defs": {**definitions, "a40": {}}, "$ref": "#/$defs/a0"})


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_any_object_is_a_schema_or_refused_in_one_line(value: Any) -> None:
    schema = {"allOf": value, "properties": {"a": value}, "$defs": value, "items": {"$ref": "#/$defs/a"}}
    try:
        assert checked_schema(checked_schema(schema)) == checked_schema(schema)
    except ValueError as error:
        assert str(error)


def test_a_schema_may_come_as_text() -> None:
    assert read_parameters({"jsonSchema": '{"type": "object"}', "fps": "2"}) == Parameters(
        json_schema={"type": "object"}, fps=2
    )
    for wrong in ("{", "[1]", "[" * 100_000):
        with pytest.raises(ValueError, match="jsonSchema"):
            read_parameters({"jsonSchema": wrong})


@pytest.mark.parametrize(("levels", "deep"), [(DEPTH_LIMIT - 1, False), (DEPTH_LIMIT, True), (100_000, True)])
def test_depth_is_counted_without_recursion(levels: int, deep: bool) -> None:
    assert too_deep(nested(levels)) is deep
