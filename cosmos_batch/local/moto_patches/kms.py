"""Patches of moto's KMS: the keys of a template are created, changed and deleted."""

from __future__ import annotations

from moto.kms.models import Key

from cosmos_batch.local.cloudformation.simulated_type import Properties
from cosmos_batch.local.moto_patches.registry import RESOURCE_PAGES, patch
from cosmos_batch.local.moto_patches.resources import fix_properties, policy_as_text

_KEY_PAGE = f"{RESOURCE_PAGES}aws-resource-kms-key.html"


@patch(
    "kms.tags-of-templates",
    brings="The tags of a key in a template have Key and Value.",
    moto="Reads TagKey and TagValue, as the service's own API has them.",
    source=_KEY_PAGE,
)
def _read_tags() -> None:
    fix_properties(Key, _tagged_key)


def _tagged_key(_: str, properties: Properties) -> None:
    properties["Tags"] = [
        {"TagKey": tag.get("Key", tag.get("TagKey")), "TagValue": tag.get("Value", tag.get("TagValue"))}
        for tag in properties.get("Tags", [])
    ]


@patch(
    "kms.key-policies-are-json",
    brings="The policy of a key that a template gives as an object is JSON.",
    moto="Keeps the object, which no call can return.",
    source=_KEY_PAGE,
)
def _write_key_policies() -> None:
    fix_properties(Key, policy_as_text("KeyPolicy"))
