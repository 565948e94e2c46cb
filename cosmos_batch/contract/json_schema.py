"""Check the JSON Schema that a caller may require of an answer, within limits that bound a worker's time and memory.

`jsonschema` is imported only when there is a schema, because importing it would slow the cold start of Lambdas.
"""

import json
from collections.abc import Iterator
from typing import Any

SCHEMA_LIMIT = 16 * 1024  # bytes of JSON, references written out
DEPTH_LIMIT = 64  # levels; JSON writers fail at 255 levels, Python's recursion at about 1,000
# The sum of all items, characters and properties that a schema may require. vLLM's grammar takes memory for each of
# them, so that a schema of one line with a billion items would crash a server.
COUNT_LIMIT = 10_000
NUMBER_LIMIT = 10**15

_BY_NAME = "properties"
_VALUES = ("const", "enum", "default", "examples", "required")
_COUNTS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
REFUSED = (
    # A regular expression can take unlimited time, during which a worker completes no other answer.
    *("pattern", "patternProperties"),
    # Checking an answer for these takes time that doubles with each level, or that grows with the square of its size.
    *("unevaluatedItems", "unevaluatedProperties", "uniqueItems"),
    # llguidance 1.7 builds no grammar from these.
    *("not", "if", "then", "else", "contains", "minContains", "maxContains", "propertyNames"),
    *("dependentRequired", "dependentSchemas", "dependencies", "additionalItems", "$dynamicRef", "$recursiveRef"),
)
# Keywords that describe the schema and not the answer, and `format`, which is not checked.
_LEFT_OUT = ("$defs", "definitions", "$id", "$anchor", "$schema", "$comment", "format", "discriminator")

Schema = dict[str, Any]


def checked_schema(schema: Schema) -> Schema:
    """Return a schema with its references resolved. Raises ValueError if it is invalid or beyond the limits."""
    if _depth(schema) > DEPTH_LIMIT:
        raise ValueError(f"is nested more than {DEPTH_LIMIT} levels deep")
    _refuse_size(_size(schema))
    resolved: Schema = _ReferenceResolver(schema).resolve(schema, ())
    if _depth(resolved) > DEPTH_LIMIT:
        raise ValueError(f"is nested more than {DEPTH_LIMIT} levels deep with its references written out")
    _refuse_size(_size(resolved))
    _refuse_no_schema(resolved)
    _refuse_no_keyword(resolved)
    return resolved


def too_deep(value: Any) -> bool:
    """Return whether a parsed JSON value is nested more than `DEPTH_LIMIT` levels deep."""
    return _depth(value) > DEPTH_LIMIT


def _depth(value: Any) -> int:
    """Return the depth of a value, computed without recursion; the search stops beyond the limit."""
    depth, level = 0, [value]
    while level and depth <= DEPTH_LIMIT:
        depth += 1
        level = [inner for outer in level for inner in _inner(outer)]
    return depth


def _inner(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _size(schema: Schema) -> int:
    try:
        return len(json.dumps(schema, allow_nan=False, ensure_ascii=False).encode())
    except (TypeError, ValueError) as error:
        raise ValueError("is not JSON: it holds a value that JSON cannot write") from error


def _refuse_size(size: int) -> None:
    if size > SCHEMA_LIMIT:
        raise ValueError(f"has {size:,} bytes with its references written out; allowed are {SCHEMA_LIMIT:,}")


def _refuse_no_schema(schema: Schema) -> None:
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise ValueError(f"is no JSON schema (draft 2020-12): {error.json_path}: {error.message[:200]}") from error


def _refuse_no_keyword(schema: Schema) -> None:
    """Raise ValueError for an object that any answer would fit. A file with a prompt is easily taken for a schema."""
    from jsonschema import Draft202012Validator

    if not schema.keys() & Draft202012Validator.VALIDATORS.keys():
        raise ValueError(
            "has no keyword of JSON Schema that an answer could be checked for, such as type or properties; a schema "
            'looks like {"type": "object", "properties": {"label": {"type": "string"}}}'
        )


class _ReferenceResolver:
    """Replaces each `$ref` of a schema by the part that it refers to.

    Later checks then take no longer than the size of the schema allows, which is limited here.
    """

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._left = SCHEMA_LIMIT  # parts of the schema, each of which has at least one byte
        self._counts_left = COUNT_LIMIT

    def resolve(self, part: Any, within: tuple[str, ...]) -> Any:
        """Return a part of the schema without references; `within` are the references that led to it."""
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"has more than {SCHEMA_LIMIT:,} bytes with its references written out")
        if isinstance(part, list):
            return [self.resolve(item, within) for item in part]
        if not isinstance(part, dict):
            return part
        for keyword in REFUSED:
            if keyword in part:
                raise ValueError(f"uses {keyword!r}, which is not supported; leave it out")
        if "$ref" in part:
            return self._referred(part, within)
        return {name: self._keyword(name, value, within) for name, value in part.items() if name not in _LEFT_OUT}

    def _keyword(self, name: str, value: Any, within: tuple[str, ...]) -> Any:
        if name in _VALUES:
            return value
        if name in _COUNTS or name in _NUMBERS:
            self._count(name, value)
            return value
        if name == _BY_NAME and isinstance(value, dict):
            return {key: self.resolve(one, within) for key, one in value.items()}
        return self.resolve(value, within)

    def _count(self, name: str, value: Any) -> None:
        """Raise ValueError if a number is larger than any answer needs."""
        if not isinstance(value, int | float):
            return  # not a valid schema; `_refuse_no_schema` has the better message
        if not abs(value) <= NUMBER_LIMIT:
            raise ValueError(f"has a {name!r} beyond {NUMBER_LIMIT:,}; leave it out")
        if name in _COUNTS:
            self._counts_left -= int(value)
        if self._counts_left < 0:
            raise ValueError(f"has {', '.join(_COUNTS)} of more than {COUNT_LIMIT:,} together; lower {name!r}")

    def _referred(self, part: Schema, within: tuple[str, ...]) -> Any:
        reference = part["$ref"]
        if not isinstance(reference, str) or not reference.startswith("#/"):
            raise ValueError(f"$ref {reference!r} does not refer to a part of the schema; use '#/$defs/name'")
        if reference in within:
            raise ValueError(f"$ref {reference!r} refers to itself")
        target = self.resolve(self._find(reference), (*within, reference))
        beside = {name: value for name, value in part.items() if name != "$ref"}
        written: Schema = self.resolve(beside, within)
        return {**written, "allOf": [*written.get("allOf", []), target]} if written else target

    def _find(self, reference: str) -> Any:
        value: Any = self._root
        for name in reference.removeprefix("#/").split("/"):
            key = name.replace("~1", "/").replace("~0", "~")
            if not isinstance(value, dict) or key not in value:
                raise ValueError(f"$ref {reference!r} leads nowhere")
            value = value[key]
        return value
