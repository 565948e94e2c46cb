"""Read a synthesized app, with its templates as plain values."""

import hashlib
import json
from pathlib import Path
from typing import Any

from cosmos_batch.catalogue.pipelines import PIPELINES

Resource = dict[str, Any]

TOKEN = "hf_tokenThatMustNotBeFound"
SEED = {
    "app": {
        "pipelines": {
            "useNvidiaCosmos": {
                "enabled": True,
                "huggingFaceToken": TOKEN,
                "useWarmInstances": False,
                "warmInstanceCount": 1,
                "modelsReason": {
                    "reason2B": {
                        "enabled": True,
                        "autoRegisterWithVAMS": True,
                        "autoTriggerOnFileExtensionsUpload": ".mp4",
                        "instanceTypes": ["g6e.12xlarge", "g5.12xlarge"],
                        "maxVCpus": 192,
                    },
                    "reason8B": {
                        "enabled": True,
                        "autoRegisterWithVAMS": True,
                        "instanceTypes": ["g6e.12xlarge", "g6e.24xlarge"],
                        "maxVCpus": 96,
                    },
                },
            }
        }
    }
}
# What SEED enables.
REASONERS = [pipeline for pipeline in PIPELINES if pipeline.config_key in ("reason2B", "reason8B")]
STACKS = ["Network", "Storage", "Images", "Builds", "Pipelines", "Monitoring"]


class Assembly:
    """The folder that one synthesis wrote, with its templates and assets."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        names = {name: f"CosmosBatch-{name}.template.json" for name in STACKS}
        # Without CodeBuild there is no stack of builds.
        self.templates = {name: self._read(file) for name, file in names.items() if (folder / file).exists()}

    def resources(self, stack: str, kind: str) -> dict[str, Resource]:
        """Return the resources of one type, such as `SQS::Queue`, by their logical ids."""
        resources = self.templates[stack]["Resources"]
        return {name: resource for name, resource in resources.items() if resource["Type"] == f"AWS::{kind}"}

    def properties(self, stack: str, kind: str, part_of_id: str = "") -> list[Resource]:
        """Return the properties of the resources whose logical id contains `part_of_id`."""
        return [resource["Properties"] for name, resource in self.resources(stack, kind).items() if part_of_id in name]

    def one(self, stack: str, kind: str, part_of_id: str = "") -> Resource:
        """Return the properties of the only resource whose logical id contains `part_of_id`."""
        (properties,) = self.properties(stack, kind, part_of_id)
        return properties

    def roles(self) -> dict[str, list[Resource]]:
        """Return the IAM statements of each role of all stacks, by the role's logical id."""
        roles: dict[str, list[Resource]] = {
            name: [] for stack in self.templates for name in self.resources(stack, "IAM::Role")
        }
        for stack in self.templates:
            # CDK puts what exceeds an inline policy's 10,240 characters into a managed one.
            for policy in [*self.properties(stack, "IAM::Policy"), *self.properties(stack, "IAM::ManagedPolicy")]:
                for role in policy.get("Roles", []):
                    roles[role["Ref"]] += policy["PolicyDocument"]["Statement"]
        return roles

    def statements(self, part_of_role: str) -> list[Resource]:
        """Return the IAM statements of the roles whose logical id contains `part_of_role`."""
        roles = self.roles().items()
        return [statement for role, statements in roles if part_of_role in role for statement in statements]

    def assets(self, stack: str) -> dict[str, Any]:
        """Return the asset manifest of a stack."""
        return self._read(f"CosmosBatch-{stack}.assets.json")

    def asset_folder(self, key: str) -> Path:
        """Return the folder that a function's or a layer's S3 key stands for."""
        path: str = self.assets("Pipelines")["files"][key.removesuffix(".zip")]["source"]["path"]
        return self.folder / path

    def _read(self, name: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.folder / name).read_text(encoding="utf-8"))
        return content


def endpoint_service(endpoint: Resource) -> str:
    """Return `ecr.api` for the VPC endpoint `com.amazonaws.<region>.ecr.api`."""
    text: str = endpoint["ServiceName"]["Fn::Join"][1][-1]
    return text.removeprefix(".")


def resolve(value: Any) -> str:
    """Return a property as one text: joins are joined, and every other intrinsic becomes a text that names it."""
    if not isinstance(value, dict):
        return str(value)
    if "Fn::Join" in value:
        separator, parts = value["Fn::Join"]
        return str(separator).join(resolve(part) for part in parts)
    return "x" + hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]
