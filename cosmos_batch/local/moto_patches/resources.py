"""Helpers with which patches change how moto makes, changes and describes resources of CloudFormation templates."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from cosmos_batch.local.cloudformation.simulated_type import Properties
from cosmos_batch.local.moto_patches.registry import replace


def fix_properties(cls: Any, fix: Callable[[str, Properties], str | None]) -> None:
    """Call ``fix`` with a resource's name and properties before moto does; it may change both."""
    for operation in ("create_from_cloudformation_json", "update_from_cloudformation_json"):
        _fix_properties_before(cls, operation, fix)


def _fix_properties_before(cls: Any, operation: str, fix: Callable[[str, Properties], str | None]) -> None:
    original = getattr(cls, operation).__func__
    if hasattr(original, "__isabstractmethod__"):
        return

    def create(cls: Any, resource_name: str, cloudformation_json: Any, *args: Any, **kwargs: Any) -> Any:
        name = fix(resource_name, cloudformation_json["Properties"]) or resource_name
        return original(cls, name, cloudformation_json, *args, **kwargs)

    def update(
        cls: Any, /, original_resource: Any, new_resource_name: str, cloudformation_json: Any, **kwargs: Any
    ) -> Any:
        name = fix(new_resource_name, cloudformation_json["Properties"]) or new_resource_name
        return original(cls, original_resource, name, cloudformation_json, **kwargs)

    replace(cls, operation, classmethod(create if operation.startswith("create") else update))


def configure_after(cls: Any, configure: Callable[[Any, Properties], None]) -> None:
    """Let ``configure`` apply the properties that moto ignores, after moto made or changed a resource."""
    make, change = cls.create_from_cloudformation_json.__func__, cls.update_from_cloudformation_json.__func__

    def create(cls: Any, resource_name: str, cloudformation_json: Any, *args: Any, **kwargs: Any) -> Any:
        properties = copy.deepcopy(cloudformation_json["Properties"])
        resource = make(cls, resource_name, cloudformation_json, *args, **kwargs)
        configure(resource, properties)
        return resource

    def update(
        cls: Any, /, original_resource: Any, new_resource_name: str, cloudformation_json: Any, **kwargs: Any
    ) -> Any:
        properties = copy.deepcopy(cloudformation_json["Properties"])
        resource = change(cls, original_resource, new_resource_name, cloudformation_json, **kwargs)
        configure(resource, properties)
        return resource

    replace(cls, "create_from_cloudformation_json", classmethod(create))
    replace(cls, "update_from_cloudformation_json", classmethod(update))


def expose_attributes(cls: Any, names: dict[str, str]) -> None:
    """Let ``Fn::GetAtt`` read the attributes in ``names``, each mapped to the attribute of the Python object."""
    replace(cls, "has_cfn_attr", classmethod(lambda _, name: name in names))
    replace(cls, "get_cfn_attribute", lambda self, name: getattr(self, names[name]))


def policy_as_text(member: str) -> Callable[[str, Properties], None]:
    """Return a fix that turns the policy document in ``member`` into JSON text."""

    def fix(_: str, properties: Properties) -> None:
        if member in properties:
            properties[member] = as_text(properties[member])

    return fix


def as_text(document: Any) -> str:
    """Return a policy document as JSON text."""
    return document if isinstance(document, str) else json.dumps(document)


def is_true(value: Any) -> bool:
    """Read a boolean property, which a template may give as text."""
    return str(value).lower() == "true"
