"""What it takes to make a CloudFormation type that moto lacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Properties = dict[str, Any]


@dataclass(frozen=True)
class SimulatedType:
    """How a type is made.

    ``put`` takes a name and the properties, makes or changes the resource, and returns its physical id and attributes.
    ``remove`` takes the physical id. ``replaced_on_change`` ones cannot be
    changed: a changed one is removed and made anew.
    """

    put: Callable[[str, Properties], tuple[str, dict[str, str]]]
    remove: Callable[[str], Any]
    replaced_on_change: bool = False


def api_casing(value: Any) -> Any:
    """Return template properties with names that begin in lower case, as the services' APIs spell them."""
    if isinstance(value, dict):
        return {name[:1].lower() + name[1:]: api_casing(part) for name, part in value.items()}
    return [api_casing(part) for part in value] if isinstance(value, list) else value
