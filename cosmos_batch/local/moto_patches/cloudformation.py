"""CloudFormation.

AWS: refuses a type that it does not know; names the resource that failed and undoes the stack; updates whatever
depends on a changed value; replaces what cannot be changed; awaits custom resources; keeps an export that is in use.

moto: skips unknown types with a warning; reports a bare exception and keeps half a stack; updates a resource only if
its own text in the template changed; loses what cannot be changed; goes on while custom resources run; reads a JSON
template with a YAML parser.

Mend: the four operations of a resource map, over resolved properties and in the order of dependencies.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from moto.cloudformation import models, parsing
from moto.cloudformation.exceptions import ValidationError
from moto.cloudformation.models import CloudFormationBackend, Stack
from moto.cloudformation.parsing import ResourceMap

from cosmos_batch.local.cloudformation import exports, resource_types
from cosmos_batch.local.cloudformation.custom_resources import CustomResource
from cosmos_batch.local.cloudformation.dependencies import as_list, in_dependency_order
from cosmos_batch.local.moto_patches import cloudformation_types, ec2
from cosmos_batch.local.runtime import ACCOUNT, REGION

_CUSTOM = ("Custom::", "AWS::CloudFormation::CustomResource")
_types: dict[str, Any] = {}


class ResourceError(ValidationError):
    """A resource could not be made, changed or deleted; the message names it, its type and the reason."""

    def __init__(self, logical_id: str, resource_type: str, verb: str, reason: BaseException) -> None:
        # Some of moto's exceptions have an empty text and keep their message apart.
        text = getattr(reason, "message", "") or str(reason) or type(reason).__name__
        super().__init__(message=f"{logical_id} ({resource_type}) could not be {verb}: {text}")


def apply() -> None:
    """Install the mend."""
    _types.update(resource_types.classes())
    cloudformation_types.apply()
    parsing.resource_class_from_type = _known_class
    parsing.parse_and_create_resource = _create
    ResourceMap.update = _update_all
    ResourceMap.delete = _delete_all
    Stack.parse_template = staticmethod(_parse_template)
    _roll_back_failed_creation()
    _update_as_a_whole()
    _keep_what_is_imported()
    _show_only_what_is_made()
    Stack.stack_parameters = property(_given_parameters)


def _parse_template(template: str) -> dict[str, Any]:
    try:
        return json.loads(template)
    except ValueError:
        return _parse_yaml(template)


_parse_yaml: Callable[[str], dict[str, Any]] = Stack.parse_template
_moto_class_from_type = parsing.resource_class_from_type


def _known_class(resource_type: str) -> Any:
    if resource_type.startswith(_CUSTOM):
        return CustomResource
    found = _types.get(resource_type) or _moto_class_from_type(resource_type)
    if not found and resource_type not in parsing.NULL_MODELS:
        raise ValidationError(
            message=f"the local cloud has no {resource_type}. Make it in cosmos_batch/local/resource_types.py, "
            "or accept it there with a reason."
        )
    return found


# --- one resource ----------------------------------------------------------------------------------------------------


def _create(
    logical_id: str, resource_json: dict[str, Any], resources: ResourceMap, account_id: str, region_name: str
) -> Any | None:
    if not _wanted(resource_json, resources):
        return None
    try:
        for dependency in as_list(resource_json.get("DependsOn", [])):
            resources[dependency]
        parsed = parsing.parse_resource_and_generate_name(logical_id, resource_json, resources)
        if not parsed:
            return None
        resource_class, resolved, name = parsed
        as_resolved = copy.deepcopy(resolved)
        resource = resource_class.create_from_cloudformation_json(
            name,
            resolved,
            account_id,
            region_name,
            LogicalId=logical_id,
            StackId=resources.stack_id,
            ResourceType=resource_json["Type"],
        )
    except ResourceError:
        raise
    except Exception as error:
        raise ResourceError(logical_id, resource_json["Type"], "created", error) from error
    _remember(resources, logical_id, resource, as_resolved)
    return resource


def _remember(resources: ResourceMap, logical_id: str, resource: Any, resolved: dict[str, Any]) -> None:
    resource.cf_resource_type, resource.logical_resource_id = resolved["Type"], logical_id
    resources.__dict__.setdefault("resolved", {})[logical_id] = resolved


def _update(resources: ResourceMap, logical_id: str) -> None:
    """Change a resource if what the template says about it, with every reference resolved, is not what it is."""
    resource_json, original = resources._resource_json_map[logical_id], resources._parsed_resources[logical_id]
    parsed = parsing.parse_resource_and_generate_name(logical_id, resource_json, resources)
    if not parsed or parsed[1] == resources.resolved[logical_id]:
        return
    resource_class, resolved, new_name = parsed
    as_resolved = copy.deepcopy(resolved)
    before = resources.resolved[logical_id].get("Properties", {})
    if ec2.retag(original, before, resolved.get("Properties", {})):
        _remember(resources, logical_id, original, as_resolved)
    elif _updatable(resource_class):
        try:
            changed = resource_class.update_from_cloudformation_json(
                original_resource=original,
                new_resource_name=new_name,
                cloudformation_json=resolved,
                account_id=ACCOUNT,
                region_name=REGION,
            )
        except Exception as error:
            raise ResourceError(logical_id, resource_json["Type"], "updated", error) from error
        resources._parsed_resources[logical_id] = changed
        _remember(resources, logical_id, changed, as_resolved)
    else:
        _delete(resources, logical_id)
        resources[logical_id]


def _updatable(resource_class: Any) -> bool:
    update = resource_class.update_from_cloudformation_json
    if issubclass(resource_class, resource_types.SimulatedResource):
        return not resource_class.simulated_type.replaced_on_change
    return not hasattr(update, "__isabstractmethod__") and resource_class not in cloudformation_types.REPLACED


def _delete(resources: ResourceMap, logical_id: str) -> None:
    resource = resources._parsed_resources.get(logical_id)
    resolved = resources.__dict__.setdefault("resolved", {})
    known = resolved.get(logical_id)
    if resource is not None and known is not None and not known.get("DeletionPolicy", "").startswith("Retain"):
        try:
            resources._delete_resource(resource, known)
        except Exception as error:
            raise ResourceError(logical_id, known["Type"], "deleted", error) from error
    resources._parsed_resources.pop(logical_id, None)
    resolved.pop(logical_id, None)


def _wanted(resource_json: dict[str, Any], resources: ResourceMap) -> bool:
    condition = resource_json.get("Condition")
    return not condition or bool(resources.lazy_condition_map[condition])


# --- all resources of a stack ----------------------------------------------------------------------------------------


def _update_all(self: ResourceMap, template: dict[str, Any], parameters: dict[str, Any] | None = None) -> None:
    previous = self._resource_json_map
    self._template, self._resource_json_map = template, template["Resources"]
    if parameters:
        self.input_parameters = parameters
    self.load_mapping()
    self.load_parameters()
    self.load_conditions()
    for logical_id in in_dependency_order(self._resource_json_map):
        if not _wanted(self._resource_json_map[logical_id], self):
            continue
        if logical_id in self._parsed_resources:
            _update(self, logical_id)
        else:
            self[logical_id]
    gone = [name for name in previous if name not in template["Resources"] or not _wanted(previous[name], self)]
    for logical_id in reversed([name for name in in_dependency_order(previous) if name in gone]):
        _delete(self, logical_id)


def _delete_all(self: ResourceMap) -> None:
    for logical_id in reversed(in_dependency_order(self._resource_json_map)):
        _delete(self, logical_id)


# --- stacks ----------------------------------------------------------------------------------------------------------


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

    CloudFormationBackend.create_stack = create_stack


def roll_back(stack: Stack) -> None:
    """Delete what there is of a stack that was not made."""
    resources = stack.resource_map
    for logical_id in reversed(in_dependency_order(resources._resource_json_map)):
        try:
            _delete(resources, logical_id)
        except ResourceError:
            continue  # The failure of the creation is the one to report.


def _update_as_a_whole() -> None:
    """An update that fails leaves the stack as it was; one that succeeds changes the exports too."""
    original = Stack.update

    def update(
        self: Stack, template: str, role_arn: str | None = None, parameters: Any = None, tags: Any = None
    ) -> None:
        exports.refuse_removal(self, _parse_template(template))
        before, exported = self.template, exports.values(self)
        self.status = "UPDATE_IN_PROGRESS"
        try:
            original(self, template, role_arn, parameters, tags)
            exports.refuse_changes(self, exported)
        except Exception:
            original(self, before, role_arn, self.parameters, tags)
            self.status = "UPDATE_ROLLBACK_COMPLETE"
            raise
        known = models.cloudformation_backends[ACCOUNT][REGION].exports
        for name in exports.values(self):
            del known[name]
        known.update({export.name: export for export in self.exports})

    Stack.update = update


def _keep_what_is_imported() -> None:
    original = CloudFormationBackend.delete_stack

    def delete_stack(self: CloudFormationBackend, name_or_stack_id: str) -> None:
        for stack in self.stacks.values():
            if name_or_stack_id in (stack.name, stack.stack_id):
                exports.refuse_removal(stack, {})
        original(self, name_or_stack_id)

    CloudFormationBackend.delete_stack = delete_stack


def _show_only_what_is_made() -> None:
    """moto makes a resource when somebody asks for it: whoever looks at a stack that is being made or deleted would
    make a second one."""
    outputs, delete = Stack.outputs.fget, Stack.delete
    settled = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE")

    def delete_without_outputs(self: Stack) -> None:
        self.status = "DELETE_IN_PROGRESS"
        delete(self)

    Stack.delete = delete_without_outputs
    Stack.outputs = property(lambda self: outputs(self) if self.status in settled else None)
    Stack.stack_resources = property(_made_resources)


def _given_parameters(self: Stack) -> dict[str, Any]:
    """Return the parameters as they were given: what moto has for those of Parameter Store is what they stand for."""
    given = self.resource_map.input_parameters
    declared = self.template_dict.get("Parameters", {})
    return {name: given.get(name, parameter.get("Default")) for name, parameter in declared.items()}


def _made_resources(stack: Stack) -> list[Any]:
    """Beside what the template makes, moto keeps the values of parameters and of AWS's own names."""
    made = stack.resource_map._parsed_resources
    return [made[name] for name in stack.resource_map._resource_json_map if made.get(name)]
