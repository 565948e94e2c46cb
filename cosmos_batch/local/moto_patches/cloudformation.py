"""Patches of moto's CloudFormation: the resources of a stack are created, updated and deleted as on AWS."""

from __future__ import annotations

import copy
from typing import Any

from moto.cloudformation import parsing
from moto.cloudformation.exceptions import ValidationError
from moto.cloudformation.parsing import ResourceMap
from moto.efs.models import MountTarget

from cosmos_batch.local.cloudformation import resource_types
from cosmos_batch.local.cloudformation.custom_resources import CustomResource
from cosmos_batch.local.cloudformation.dependencies import as_list, in_dependency_order
from cosmos_batch.local.moto_patches import ec2
from cosmos_batch.local.moto_patches.registry import RESOURCE_PAGES, patch, replace
from cosmos_batch.local.runtime import ACCOUNT, REGION

_GUIDE = "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/"

# moto's update of these refuses or loses properties, so they are deleted and created again.
_REPLACED_ON_CHANGE = {MountTarget}

_CUSTOM = ("Custom::", "AWS::CloudFormation::CustomResource")
_types: dict[str, Any] = {}
_moto_class_from_type = parsing.resource_class_from_type


class ResourceError(ValidationError):
    """A resource could not be created, updated or deleted; the message names it, its type and the reason."""

    def __init__(self, logical_id: str, resource_type: str, verb: str, reason: BaseException) -> None:
        # Some of moto's exceptions have an empty text and keep their message apart.
        text = getattr(reason, "message", "") or str(reason) or type(reason).__name__
        super().__init__(message=f"{logical_id} ({resource_type}) could not be {verb}: {text}")


@patch(
    "cloudformation.unknown-types-are-refused",
    brings="A template with an unknown type is refused. Known types are moto's, those of "
    "`cloudformation.resource_types`, and custom resources, whose function is called and waited for.",
    moto="Skips an unknown type with a warning, lacks the types of `cloudformation.resource_types`, and does not wait "
    "for the function of a custom resource.",
    source=f"{RESOURCE_PAGES}aws-template-resource-type-ref.html",
)
def _know_types() -> None:
    _types.update(resource_types.classes())
    replace(parsing, "resource_class_from_type", _known_class)


def _known_class(resource_type: str) -> Any:
    if resource_type.startswith(_CUSTOM):
        return CustomResource
    known = _types.get(resource_type) or _moto_class_from_type(resource_type)
    if not known and resource_type not in parsing.NULL_MODELS:
        raise ValidationError(
            message=f"The local cloud does not know the type {resource_type}. Add it to the simulated types of "
            "cloudformation/resource_types.py, or to the accepted types there, with the reason."
        )
    return known


# --- one resource ----------------------------------------------------------------------------------------------------


@patch(
    "cloudformation.failures-name-the-resource",
    brings="The failure of a creation names the resource, its type and the reason.",
    moto="Reports the exception alone.",
    source=f"{_GUIDE}stack-failure-options.html",
)
def _name_failed_resources() -> None:
    replace(parsing, "parse_and_create_resource", _create)


def _create(
    logical_id: str, resource_json: dict[str, Any], resources: ResourceMap, account_id: str, region_name: str
) -> Any | None:
    if not _is_condition_met(resource_json, resources):
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
    """Update a resource if its properties, with every reference resolved, have changed."""
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
        delete_resource(resources, logical_id)
        resources[logical_id]


def _updatable(resource_class: Any) -> bool:
    update = resource_class.update_from_cloudformation_json
    if issubclass(resource_class, resource_types.SimulatedResource):
        return not resource_class.simulated_type.replaced_on_change
    return not hasattr(update, "__isabstractmethod__") and resource_class not in _REPLACED_ON_CHANGE


def delete_resource(resources: ResourceMap, logical_id: str) -> None:
    resource = resources._parsed_resources.get(logical_id)
    resolved = resources.__dict__.setdefault("resolved", {})
    created = resolved.get(logical_id)
    if resource is not None and created is not None and not created.get("DeletionPolicy", "").startswith("Retain"):
        try:
            resources._delete_resource(resource, created)
        except Exception as error:
            raise ResourceError(logical_id, created["Type"], "deleted", error) from error
    resources._parsed_resources.pop(logical_id, None)
    resolved.pop(logical_id, None)


def _is_condition_met(resource_json: dict[str, Any], resources: ResourceMap) -> bool:
    condition = resource_json.get("Condition")
    return not condition or bool(resources.lazy_condition_map[condition])


# --- all resources of a stack ----------------------------------------------------------------------------------------


@patch(
    "cloudformation.updates-follow-references",
    brings="A stack update changes every resource of which a referenced value changed, in the order of dependencies, "
    "and replaces a resource that cannot be changed.",
    moto="Updates a resource only if its own text in the template changed, and loses one that cannot be changed.",
    source=f"{_GUIDE}using-cfn-updating-stacks-update-behaviors.html",
)
def _update_by_values() -> None:
    replace(ResourceMap, "update", _update_all)


def _update_all(self: ResourceMap, template: dict[str, Any], parameters: dict[str, Any] | None = None) -> None:
    previous = self._resource_json_map
    self._template, self._resource_json_map = template, template["Resources"]
    if parameters:
        self.input_parameters = parameters
    self.load_mapping()
    self.load_parameters()
    self.load_conditions()
    for logical_id in in_dependency_order(self._resource_json_map):
        if not _is_condition_met(self._resource_json_map[logical_id], self):
            continue
        if logical_id in self._parsed_resources:
            _update(self, logical_id)
        else:
            self[logical_id]
    removed = [
        name for name in previous if name not in template["Resources"] or not _is_condition_met(previous[name], self)
    ]
    for logical_id in reversed([name for name in in_dependency_order(previous) if name in removed]):
        delete_resource(self, logical_id)


@patch(
    "cloudformation.deletions-follow-dependencies",
    brings="A stack deletes its resources after those that depend on them, and keeps those whose DeletionPolicy "
    "retains.",
    moto="Deletes in any order until all attempts fail, and deletes resources whose policy is RetainExceptOnCreate.",
    source=f"{RESOURCE_PAGES}aws-attribute-deletionpolicy.html",
)
def _delete_in_order() -> None:
    replace(ResourceMap, "delete", _delete_all)


def _delete_all(self: ResourceMap) -> None:
    for logical_id in reversed(in_dependency_order(self._resource_json_map)):
        delete_resource(self, logical_id)
