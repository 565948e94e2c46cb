"""The register of patches: every change to moto is made by a patch that says what it brings, and which page says so.

To add one: write a function in the module of its service, decorate it with `patch`, and let it change moto by `replace`
alone. Then write a probe for it in ``tests/local/probes``: calls that show the behavior with the patch, and do not show
it with plain moto. As soon as plain moto shows it too, a test says that the patch can go.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

# Patches are installed in this order, and within a module in the order of their definition.
MODULES = (
    "core",
    "dynamodb",
    "sqs",
    "awslambda",
    "events",
    "s3",
    "s3_listing",
    "stepfunctions",
    "stepfunctions_executions",
    "stepfunctions_language",
    "stepfunctions_tasks",
    "batch",
    "codebuild",
    "ec2",
    "ecr",
    "efs",
    "iam",
    "kms",
    "ssm",
    "cloudformation",
    "cloudformation_stacks",
    "cloudformation_change_sets",
)

RESOURCE_PAGES = "https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/"


@dataclass(frozen=True)
class Patch:
    """A change to moto, and the behavior of AWS that it brings.

    Attributes
    ----------
    name
        Unique; begins with the name of its module.
    brings
        What the local cloud does with the patch, as AWS does it unless the text says otherwise.
    moto
        What moto does without the patch.
    source
        The page or the file that says so.
    install
        Makes the change, by `replace`.
    """

    name: str
    brings: str
    moto: str
    source: str
    install: Callable[[], None]


PATCHES: dict[str, Patch] = {}
# Each attribute that was replaced, by the name of its owner and its own, with the patch that replaced it last.
REPLACED: dict[tuple[str, str], str] = {}

_installing: Patch | None = None


def patch(name: str, *, brings: str, moto: str, source: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Register the decorated function as the installation of a patch."""

    def register(install: Callable[[], None]) -> Callable[[], None]:
        if name in PATCHES:
            raise ValueError(f"two patches are called {name}")
        PATCHES[name] = Patch(name, brings, moto, source, install)
        return install

    return register


def replace(owner: Any, name: str, value: Any) -> None:
    """Set an attribute of a class or module, or an item of a dictionary, on behalf of the patch that is installed.

    Raises
    ------
    RuntimeError
        No patch is being installed.
    """
    if _installing is None:
        raise RuntimeError(f"{name} is replaced outside of a registered patch")
    if isinstance(owner, dict):
        owner[name] = value
        return
    qualified = owner.__name__ if isinstance(owner, ModuleType) else f"{owner.__module__}.{owner.__qualname__}"
    REPLACED[qualified, name] = _installing.name
    setattr(owner, name, value)


def install_all() -> None:
    """Install every patch."""
    global _installing
    load_all()
    for registered in PATCHES.values():
        _installing = registered
        registered.install()
    _installing = None


def load_all() -> None:
    """Import every module of patches, which registers them and changes nothing."""
    for module in MODULES:
        importlib.import_module(f"{__package__}.{module}")
