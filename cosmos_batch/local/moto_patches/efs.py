"""Patches of moto's EFS: the resources of a template have attributes and can be changed."""
# ruff: noqa: ARG001 -- the signatures are moto's.

from __future__ import annotations

from typing import Any

from moto.efs.models import AccessPoint, FileSystem

from cosmos_batch.local import backends
from cosmos_batch.local.moto_patches.registry import RESOURCE_PAGES, patch, replace
from cosmos_batch.local.moto_patches.resources import expose_attributes

_FILE_SYSTEM_PAGE = f"{RESOURCE_PAGES}aws-resource-efs-filesystem.html"


@patch(
    "efs.attributes-of-resources",
    brings="Ref and Fn::GetAtt read the id and the ARN of a file system and of an access point.",
    moto="Does not know the attributes.",
    source=f"{RESOURCE_PAGES}aws-resource-efs-accesspoint.html",
)
def _expose_ids() -> None:
    expose_attributes(FileSystem, {"Arn": "file_system_arn", "FileSystemId": "file_system_id"})
    expose_attributes(AccessPoint, {"Arn": "access_point_arn", "AccessPointId": "access_point_id"})
    replace(AccessPoint, "physical_resource_id", property(lambda self: self.access_point_id))


@patch(
    "efs.file-systems-change-in-place",
    brings="A stack update changes the lifecycle and the tags of a file system in place. Encryption, performance mode "
    "and a single zone, for which AWS replaces a file system, stay as they are here.",
    moto="Deletes the file system, which its mount targets forbid.",
    source=_FILE_SYSTEM_PAGE,
)
def _change_in_place() -> None:
    replace(FileSystem, "update_from_cloudformation_json", classmethod(_update_file_system))


def _update_file_system(
    cls: Any, /, original_resource: FileSystem, new_resource_name: str, cloudformation_json: Any, **_: Any
) -> FileSystem:
    properties, efs = cloudformation_json["Properties"], backends.efs()
    efs.put_lifecycle_configuration(original_resource.file_system_id, properties.get("LifecyclePolicies", []))
    efs.tagging_service.tag_resource(original_resource.file_system_id, properties.get("FileSystemTags", []))
    return original_resource
