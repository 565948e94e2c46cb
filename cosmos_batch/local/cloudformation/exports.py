"""Checks of exports that other stacks import.

AWS refuses to remove such an export and to change its value. A removal is refused before anything is changed. A change
of value is known only after the update, which then fails and is undone.
Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/using-cfn-stack-exports.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moto.cloudformation import models, parsing
from moto.cloudformation.exceptions import ValidationError
from moto.cloudformation.models import Stack

from cosmos_batch.local.runtime import ACCOUNT, REGION

IMPORT = "Fn::ImportValue"


def values(stack: Stack) -> dict[str, str]:
    """Return the values of the exports of a stack by name, as of its last deployment."""
    exports = models.cloudformation_backends[ACCOUNT][REGION].exports
    return {name: export.value for name, export in exports.items() if export.exporting_stack_id == stack.stack_id}


def refuse_removal(stack: Stack, template: dict[str, Any]) -> None:
    """Raise ValidationError if the next template of a stack lacks an export that another stack imports."""
    kept = {_resolved(output["Export"]["Name"], stack) for output in _exporting(template)}
    for name in values(stack).keys() - kept:
        _refuse_if_imported(stack, name, "deleted")


def refuse_changes(stack: Stack, before: dict[str, str]) -> None:
    """Raise ValidationError if the value of an export that another stack imports is not that in ``before``."""
    now = {export.name: export.value for export in stack.exports}
    for name, value in before.items():
        if name in now and now[name] != value:
            _refuse_if_imported(stack, name, "updated")


def _exporting(template: dict[str, Any]) -> list[dict[str, Any]]:
    return [output for output in template.get("Outputs", {}).values() if "Export" in output]


def _refuse_if_imported(stack: Stack, name: str, verb: str) -> None:
    importing = [other.name for other in _other_stacks(stack) if name in _imports(other, other.template_dict)]
    if importing:
        raise ValidationError(message=f"Export {name} cannot be {verb} as it is in use by {' and '.join(importing)}")


def _other_stacks(stack: Stack) -> list[Stack]:
    stacks = models.cloudformation_backends[ACCOUNT][REGION].stacks.values()
    return [other for other in stacks if other.stack_id != stack.stack_id and not other.status.startswith("DELETE")]


def _imports(stack: Stack, value: Any) -> Iterator[str]:
    """Yield the name of every export that a part of the template imports."""
    if isinstance(value, list):
        for part in value:
            yield from _imports(stack, part)
    elif isinstance(value, dict):
        for key, part in value.items():
            if key == IMPORT:
                yield _resolved(part, stack)
            else:
                yield from _imports(stack, part)


def _resolved(name: Any, stack: Stack) -> str:
    return str(parsing.clean_json(name, stack.resource_map))
