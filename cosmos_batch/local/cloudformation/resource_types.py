"""The CloudFormation types that moto lacks: simulated types, and types that are accepted but not created.

The signatures of the methods are those that moto calls, whether or not a type needs every argument.
"""
# ruff: noqa: ARG003, ARG005

from __future__ import annotations

from typing import Any

from moto.core.common_models import CloudFormationModel

from cosmos_batch.local.cloudformation import monitoring_types, network_types, resource_policy_types, service_types
from cosmos_batch.local.cloudformation.simulated_type import SimulatedType

SIMULATED = {**service_types.TYPES, **network_types.TYPES, **monitoring_types.TYPES, **resource_policy_types.TYPES}
_NAME_PROPERTIES = {**service_types.NAME_PROPERTIES, **monitoring_types.NAME_PROPERTIES}

# Types for which nothing is created, with the reason, which each deployment prints.
ACCEPTED_TYPES = {
    "AWS::CDK::Metadata": "it describes the template, not the application",
}


class SimulatedResource:
    """A resource of a simulated type."""

    type_name = ""
    simulated_type = SimulatedType(lambda name, properties: (name, {}), lambda physical_id: None)

    def __init__(self, name: str, physical_id: str, attributes: dict[str, str]) -> None:
        self.name, self.physical_resource_id, self._attributes = name, physical_id, attributes

    @classmethod
    def cloudformation_type(cls) -> str:
        return cls.type_name

    @classmethod
    def cloudformation_name_type(cls) -> str:
        return _NAME_PROPERTIES.get(cls.type_name, "")

    @classmethod
    def has_cfn_attr(cls, attr: str) -> bool:
        return True

    def get_cfn_attribute(self, name: str) -> str | None:
        return self._attributes.get(name)

    @classmethod
    def create_from_cloudformation_json(
        cls, resource_name: str, cloudformation_json: Any, *_: Any, **__: Any
    ) -> SimulatedResource:
        return cls(resource_name, *cls.simulated_type.put(resource_name, cloudformation_json["Properties"]))

    @classmethod
    def update_from_cloudformation_json(
        cls, original_resource: SimulatedResource, new_resource_name: str, cloudformation_json: Any, *_: Any, **__: Any
    ) -> SimulatedResource:
        changed = cls(
            original_resource.name, *cls.simulated_type.put(original_resource.name, cloudformation_json["Properties"])
        )
        if changed.physical_resource_id != original_resource.physical_resource_id:
            original_resource.delete()
        return changed

    def delete(self, *_: Any) -> None:
        self.simulated_type.remove(self.physical_resource_id)


def classes() -> dict[str, type[CloudFormationModel]]:
    """Return a class for each simulated or accepted type, by the name of the type."""
    types = {**dict.fromkeys(ACCEPTED_TYPES, SimulatedResource.simulated_type), **SIMULATED}
    return {
        name: type(
            name.replace("::", ""),
            (SimulatedResource, CloudFormationModel),
            {"type_name": name, "simulated_type": simulated_type},
        )
        for name, simulated_type in types.items()
    }
