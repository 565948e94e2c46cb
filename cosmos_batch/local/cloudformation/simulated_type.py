"""A CloudFormation type that the local cloud simulates because moto lacks it, or has only part of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Properties = dict[str, Any]


@dataclass(frozen=True)
class SimulatedType:
    """The operations of a type.

    Attributes
    ----------
    put
        Takes a name and the properties, creates or updates the resource, and returns its physical id and attributes.
    remove
        Takes the physical id and deletes the resource.
    replaced_on_change
        The resource cannot be updated: if its properties change, it is removed and created again.
    """

    put: Callable[[str, Properties], tuple[str, dict[str, str]]]
    remove: Callable[[str], Any]
    replaced_on_change: bool = False


def api_casing(value: Any) -> Any:
    """Return template properties with names that begin in lower case, as in the APIs of the services."""
    if isinstance(value, dict):
        return {name[:1].lower() + name[1:]: api_casing(part) for name, part in value.items()}
    return [api_casing(part) for part in value] if isinstance(value, list) else value
