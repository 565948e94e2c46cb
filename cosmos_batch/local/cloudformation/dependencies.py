"""The order of a template's resources by their references."""

import re
from collections.abc import Iterable, Iterator
from typing import Any


def in_dependency_order(resources: dict[str, Any]) -> list[str]:
    """Return the logical ids, each after the ids to which it refers."""
    ordered: dict[str, None] = {}

    def visit(name: str) -> None:
        if name in ordered or name in visiting:
            return
        visiting.add(name)
        for reference in references_of(resources[name]):
            if reference in resources:
                visit(reference)
        ordered[name] = None

    visiting: set[str] = set()
    for name in resources:
        visit(name)
    return list(ordered)


def references_of(value: Any) -> Iterator[str]:
    """Yield every name to which a part of a template refers."""
    if isinstance(value, list):
        for part in value:
            yield from references_of(part)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _references_by(key, part)


def _references_by(key: str, part: Any) -> Iterable[str]:
    if key == "Ref" and isinstance(part, str):
        return [part]
    if key == "DependsOn":
        return as_list(part)
    if key == "Fn::GetAtt":
        return [part[0] if isinstance(part, list) else part.split(".")[0]]
    if key == "Fn::Sub":
        text, rest = (part[0], part[1:]) if isinstance(part, list) else (part, [])
        return [*re.findall(r"\$\{(\w+)", text), *references_of(rest)]
    return references_of(part)


def as_list(value: str | list[str]) -> list[str]:
    """Return a list of the names that a template gives as a list or as a single text."""
    return [value] if isinstance(value, str) else value
