"""Patches of moto's Parameter Store: the parameters of a template are created, changed and deleted."""

from __future__ import annotations

from moto.ssm.models import Parameter

from cosmos_batch.local.cloudformation.simulated_type import Properties
from cosmos_batch.local.moto_patches.registry import RESOURCE_PAGES, patch
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
