"""Patches of moto's IAM: the roles of a template get their policies."""

from __future__ import annotations

from moto.iam.models import ManagedPolicy, Role

from cosmos_batch.local import backends
from cosmos_batch.local.cloudformation.simulated_type import Properties
from cosmos_batch.local.moto_patches.registry import RESOURCE_PAGES, patch, replace
from cosmos_batch.local.moto_patches.resources import as_text, configure_after


@patch(
    "iam.updates-change-inline-policies",
    brings="A stack update sets the inline policies of a role to those of its template.",
    moto="Keeps the policies that the role had.",
    source=f"{RESOURCE_PAGES}aws-resource-iam-role.html",
)
def _configure_roles() -> None:
    configure_after(Role, _set_inline_policies)


def _set_inline_policies(role: Role, properties: Properties) -> None:
    policies = properties.get("Policies", [])
    role.policies = {policy["PolicyName"]: as_text(policy["PolicyDocument"]) for policy in policies}


@patch(
    "iam.stacks-delete-managed-policies",
    brings="A stack deletes its managed policies.",
    moto="Leaves them.",
    source=f"{RESOURCE_PAGES}aws-resource-iam-managedpolicy.html",
)
def _delete_managed_policies() -> None:
    replace(ManagedPolicy, "delete", lambda self, *_: backends.iam().delete_policy(self.arn))
