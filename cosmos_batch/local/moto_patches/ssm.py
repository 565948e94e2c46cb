"""Patches of moto's Parameter Store: the parameters of a template are created, changed and deleted."""

from __future__ import annotations

from typing import Any

from moto.ssm.models import Parameter, ssm_backends

from cosmos_batch.local.cloudformation.simulated_type import Properties
from cosmos_batch.local.moto_patches.registry import RESOURCE_PAGES, patch, replace
from cosmos_batch.local.moto_patches.resources import fix_properties


@patch(
    "ssm.parameters-of-templates",
    brings="CloudFormation generates a name for a parameter without one, and the tags of a parameter are a mapping.",
    moto="Requires a name, and a list of tags.",
    source=f"{RESOURCE_PAGES}aws-resource-ssm-parameter.html",
)
def _read_parameters() -> None:
    fix_properties(Parameter, _named_parameter)


def _named_parameter(name: str, properties: Properties) -> None:
    properties.setdefault("Name", name)
    if isinstance(tags := properties.get("Tags"), dict):
        properties["Tags"] = [{"Key": key, "Value": value} for key, value in tags.items()]


@patch(
    "ssm.parameters-are-changed-in-place",
    brings="CloudFormation changes a parameter in place: it has a version more, and can be read all the time.",
    moto="Deletes the parameter and makes it anew, so a function that reads it in between fails.",
    source=f"{RESOURCE_PAGES}aws-resource-ssm-parameter.html",
)
def _change_in_place() -> None:
    make_anew = Parameter.update_from_cloudformation_json.__func__

    def update(
        cls: Any, /, original_resource: Any, new_resource_name: str, cloudformation_json: Any, **place: Any
    ) -> Any:
        name, properties = original_resource.name, dict(cloudformation_json["Properties"])
        if properties.get("Name", name) != name:
            return make_anew(cls, original_resource, new_resource_name, cloudformation_json, **place)
        tags = properties.pop("Tags", {})
        changed = {**cloudformation_json, "Properties": {**properties, "Name": name, "Overwrite": True}}
        parameter = cls.create_from_cloudformation_json(name, changed, **place)
        backend = ssm_backends[place["account_id"]][place["region_name"]]
        backend.add_tags_to_resource("Parameter", name, tags)  # Parameter Store takes no tags with an overwrite
        return parameter

    replace(Parameter, "update_from_cloudformation_json", classmethod(update))
