"""Patches of change sets: they are executed as creations and updates of stacks are, and found by their name."""

from __future__ import annotations

from typing import Any

from moto.cloudformation.models import CloudFormationBackend, Stack
from moto.core.exceptions import ServiceException

from cosmos_batch.local.moto_patches.cloudformation_stacks import roll_back
from cosmos_batch.local.moto_patches.registry import patch, replace
from cosmos_batch.local.runtime import ACCOUNT, REGION

_API = "https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/"


@patch(
    "cloudformation_change_sets.executed-as-operations",
    brings="A change set creates or updates its stack as the direct operations do, with exports and rollback.",
    moto="Ignores exports and failures when it executes a change set.",
    source=f"{_API}API_ExecuteChangeSet.html",
)
def _execute_as_operations() -> None:
    replace(CloudFormationBackend, "execute_change_set", _execute_change_set)


@patch(
    "cloudformation_change_sets.found-by-name",
    brings="A change set is described and deleted by its name. One that does not exist is ChangeSetNotFound where it "
    "is described, and no error where it is deleted.",
    moto="Finds a change set by its id alone.",
    source=f"{_API}API_DescribeChangeSet.html",
)
def _find_by_name() -> None:
    replace(CloudFormationBackend, "delete_change_set", _delete_change_set)
    replace(CloudFormationBackend, "describe_change_set", _describe_change_set)


def _execute_change_set(self: CloudFormationBackend, change_set_name: str, stack_name: str | None = None) -> None:
    change_set_id = _change_set_id(self, change_set_name, stack_name)
    change_set = self.change_sets[change_set_id]
    stack = self.stacks[change_set.stack_id]
    if change_set.change_set_type == "UPDATE":
        stack.update(change_set.template, parameters=change_set.parameters, tags=change_set.tags)
    else:
        _create_announced(self, stack, change_set)
    del self.change_sets[change_set_id]


class ChangeSetNotFoundError(ServiceException):
    """No change set has this name."""

    code = "ChangeSetNotFound"


def _describe_change_set(self: CloudFormationBackend, change_set_name: str) -> Any:
    try:
        return self.change_sets[_change_set_id(self, change_set_name)]
    except KeyError:
        raise ChangeSetNotFoundError(f"ChangeSet [{change_set_name}] does not exist") from None


def _delete_change_set(self: CloudFormationBackend, change_set_name: str) -> None:
    """Delete a change set, if it exists."""
    self.change_sets.pop(_change_set_id(self, change_set_name), None)


def _change_set_id(backend: CloudFormationBackend, name_or_id: str, stack_name: str | None = None) -> str:
    named = (
        change_set_id
        for change_set_id, change_set in backend.change_sets.items()
        if change_set.change_set_name == name_or_id and stack_name in (None, change_set.stack_name, change_set.stack_id)
    )
    return next(named, name_or_id)


def _create_announced(backend: CloudFormationBackend, announced: Stack, change_set: Any) -> None:
    """Create the stack of a change set, under the id that the stack got when the change set was created."""
    stack = Stack(
        announced.stack_id,
        announced.name,
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
