"""CloudFormation's change sets.

AWS: executes one as the direct operations create and update; deletes one that is not there without a word.

moto: knows neither exports nor failures as it executes one, and finds it by its id alone.

Mend: what is created or updated, is so by the operations of `cloudformation`.
"""

from __future__ import annotations

from typing import Any

from moto.cloudformation.models import CloudFormationBackend, Stack
from moto.core.exceptions import ServiceException

from cosmos_batch.local.moto_patches.cloudformation import roll_back
from cosmos_batch.local.runtime import ACCOUNT, REGION


def apply() -> None:
    """Install the mend."""
    CloudFormationBackend.execute_change_set = _execute_change_set
    CloudFormationBackend.delete_change_set = _delete_change_set
    CloudFormationBackend.describe_change_set = _describe_change_set


def _execute_change_set(self: CloudFormationBackend, change_set_name: str, stack_name: str | None = None) -> None:
    """Create or update as the direct operations do; moto's own way knows neither exports nor failures."""
    change_set_id = _change_set_id(self, change_set_name, stack_name)
    change_set = self.change_sets[change_set_id]
    stack = self.stacks[change_set.stack_id]
    if change_set.change_set_type == "UPDATE":
        stack.update(change_set.template, parameters=change_set.parameters, tags=change_set.tags)
    else:
        _create_reviewed(self, stack, change_set)
    del self.change_sets[change_set_id]


class ChangeSetNotFoundError(ServiceException):
    """There is no such change set."""

    code = "ChangeSetNotFound"


def _describe_change_set(self: CloudFormationBackend, change_set_name: str) -> Any:
    try:
        return self.change_sets[_change_set_id(self, change_set_name)]
    except KeyError:
        raise ChangeSetNotFoundError(f"ChangeSet [{change_set_name}] does not exist") from None


def _delete_change_set(self: CloudFormationBackend, change_set_name: str) -> None:
    """Delete a change set; AWS does not mind if there is none."""
    self.change_sets.pop(_change_set_id(self, change_set_name), None)


def _change_set_id(backend: CloudFormationBackend, name_or_id: str, stack_name: str | None = None) -> str:
    named = (
        change_set_id
        for change_set_id, one in backend.change_sets.items()
        if one.change_set_name == name_or_id and stack_name in (None, one.stack_name, one.stack_id)
    )
    return next(named, name_or_id)


def _create_reviewed(backend: CloudFormationBackend, reviewed: Stack, change_set: Any) -> None:
    """Create the stack that a change set announced, under the id that it has already."""
    stack = Stack(
        reviewed.stack_id,
        reviewed.name,
        change_set.template,
        change_set.parameters,
        ACCOUNT,
        REGION,
        tags=change_set.tags,
        cross_stack_resources=backend.exports,
    )
    backend.stacks[stack.stack_id] = stack
    try:
        backend.exports.update({export.name: export for export in stack.exports})
        stack._add_stack_event("CREATE_IN_PROGRESS", resource_status_reason="User Initiated")
        stack.create_resources()
    except Exception:
        roll_back(backend.stacks.pop(stack.stack_id))
        raise
