"""Patches of stacks: failures are undone, exports in use are kept, and a stack shows only resources that exist."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from moto.cloudformation import models, parsing
from moto.cloudformation.exceptions import ValidationError
from moto.cloudformation.models import CloudFormationBackend, Stack

from cosmos_batch.local.cloudformation import exports
from cosmos_batch.local.cloudformation.dependencies import in_dependency_order
from cosmos_batch.local.moto_patches.cloudformation import ResourceError, delete_resource
from cosmos_batch.local.moto_patches.registry import RESOURCE_PAGES, patch, replace
from cosmos_batch.local.runtime import ACCOUNT, REGION

_GUIDE = "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/"
_API = "https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/"
GET_STACK_OUTPUT = "Fn::GetStackOutput"


@patch(
    "cloudformation_stacks.json-is-parsed-as-json",
    brings="Speed: a template that is JSON is parsed as JSON.",
    moto="Parses it as YAML, which takes a hundred times as long.",
    source="https://github.com/getmoto/moto/blob/master/moto/cloudformation/models.py",
)
def _parse_json() -> None:
    replace(Stack, "parse_template", staticmethod(_parse_template))


def _parse_template(template: str) -> dict[str, Any]:
    try:
        return json.loads(template)
    except ValueError:
        return _parse_yaml(template)


_parse_yaml: Callable[[str], dict[str, Any]] = Stack.parse_template


@patch(
    "cloudformation_stacks.outputs-of-other-stacks",
    brings="Fn::GetStackOutput is the value that an output of another stack has when the stack is created or updated.",
    moto="Does not know the function.",
    source=f"{RESOURCE_PAGES}intrinsic-function-reference-getstackoutput.html",
)
def _resolve_outputs_of_other_stacks() -> None:
    clean = parsing.clean_json

    def clean_json(value: Any, resources: Any) -> Any:
        if isinstance(value, dict) and GET_STACK_OUTPUT in value:
            return _output(value[GET_STACK_OUTPUT]["StackName"], value[GET_STACK_OUTPUT]["OutputName"])
        return clean(value, resources)

    replace(parsing, "clean_json", clean_json)


def _output(stack_name: str, output_name: str) -> Any:
    for stack in models.cloudformation_backends[ACCOUNT][REGION].stacks.values():
        for output in stack.outputs or []:
            if stack.name == stack_name and output["OutputKey"] == output_name:
                return output["OutputValue"]
    raise ValidationError(message=f"Stack {stack_name} has no output {output_name}.")


@patch(
    "cloudformation_stacks.failed-creations-are-undone",
    brings="A creation that fails leaves no resources.",
    moto="Keeps half a stack.",
    source=f"{_GUIDE}stack-failure-options.html",
)
def _roll_back_failed_creation() -> None:
    original = CloudFormationBackend.create_stack

    def create_stack(self: CloudFormationBackend, *args: Any, **kwargs: Any) -> Stack:
        before = set(self.stacks)
        try:
            return original(self, *args, **kwargs)
        except Exception:
            for stack_id in set(self.stacks) - before:
                roll_back(self.stacks.pop(stack_id))
            raise

    replace(CloudFormationBackend, "create_stack", create_stack)


def roll_back(stack: Stack) -> None:
    """Delete the resources of a stack whose creation failed."""
    resources = stack.resource_map
    for logical_id in reversed(in_dependency_order(resources._resource_json_map)):
        try:
            delete_resource(resources, logical_id)
        except ResourceError:
            continue  # The failure of the creation is reported instead.


@patch(
    "cloudformation_stacks.updates-are-whole",
    brings="An update that fails leaves the stack as it was. One that would change or remove an export that another "
    "stack imports fails.",
    moto="Keeps half an update, and changes and removes exports; the stack that imports one keeps the old value.",
    source=f"{_GUIDE}using-cfn-stack-exports.html",
)
def _update_as_a_whole() -> None:
    original = Stack.update

    def update(
        self: Stack, template: str, role_arn: str | None = None, parameters: Any = None, tags: Any = None
    ) -> None:
        exports.refuse_removal(self, _parse_template(template))
        template_before, exported = self.template, exports.values(self)
        self.status = "UPDATE_IN_PROGRESS"
        try:
            original(self, template, role_arn, parameters, tags)
            exports.refuse_changes(self, exported)
        except Exception:
            original(self, template_before, role_arn, self.parameters, tags)
            self.status = "UPDATE_ROLLBACK_COMPLETE"
            raise
        all_exports = models.cloudformation_backends[ACCOUNT][REGION].exports
        for name in exports.values(self):
            del all_exports[name]
        all_exports.update({export.name: export for export in self.exports})

    replace(Stack, "update", update)


@patch(
    "cloudformation_stacks.exports-in-use-are-kept",
    brings="The deletion of a stack fails while another stack imports one of its exports.",
    moto="Deletes it.",
    source=f"{_GUIDE}using-cfn-stack-exports.html",
)
def _refuse_deletion_of_imports() -> None:
    original = CloudFormationBackend.delete_stack

    def delete_stack(self: CloudFormationBackend, name_or_stack_id: str) -> None:
        for stack in self.stacks.values():
            if name_or_stack_id in (stack.name, stack.stack_id):
                exports.refuse_removal(stack, {})
        original(self, name_or_stack_id)

    replace(CloudFormationBackend, "delete_stack", delete_stack)


@patch(
    "cloudformation_stacks.descriptions-create-nothing",
    brings="The description of a stack that is being created or deleted shows the resources that exist.",
    moto="Creates a resource when it is described, so a second one while the first is being created.",
    source=f"{_API}API_DescribeStackResources.html",
)
def _describe_existing_resources() -> None:
    outputs, delete = Stack.outputs.fget, Stack.delete
    settled = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE")

    def delete_without_outputs(self: Stack) -> None:
        self.status = "DELETE_IN_PROGRESS"
        delete(self)

    replace(Stack, "delete", delete_without_outputs)
    replace(Stack, "outputs", property(lambda self: outputs(self) if self.status in settled else None))
    replace(Stack, "stack_resources", property(_existing_resources))


def _existing_resources(stack: Stack) -> list[Any]:
    """Return the resources of the template. moto keeps parameters and pseudo parameters beside them."""
    existing = stack.resource_map._parsed_resources
    return [existing[name] for name in stack.resource_map._resource_json_map if existing.get(name)]


@patch(
    "cloudformation_stacks.previous-parameters-are-names",
    brings="UsePreviousValue passes the name of a parameter of Parameter Store on to the update.",
    moto="Passes the value of the parameter on, and looks for a parameter of that name.",
    source=f"{_API}API_Parameter.html",
)
def _keep_passed_parameters() -> None:
    replace(Stack, "stack_parameters", property(_passed_parameters))


def _passed_parameters(self: Stack) -> dict[str, Any]:
    passed = self.resource_map.input_parameters
    declared = self.template_dict.get("Parameters", {})
    return {name: passed.get(name, parameter.get("Default")) for name, parameter in declared.items()}
