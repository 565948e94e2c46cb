"""Every patch of moto is registered, does what it says, and is still needed."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from moto.cloudformation import parsing

from cosmos_batch.local import moto_patches
from cosmos_batch.local.cloudformation.resource_types import SIMULATED
from cosmos_batch.local.moto_patches import registry
from tests.local.probes import run

FOLDER = Path(moto_patches.__file__).parent
HELPERS = {"__init__", "registry", "resources"}

# The first of these tests waits for every probe.
PROBED = pytest.mark.timeout(600)

registry.load_all()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Run the probes against plain and patched moto; return what each saw, by kind of server and name of the patch."""

    # Made here, because two threads that ask pytest for its first folder at once get in each other's way.
    homes = {kind: tmp_path_factory.mktemp(kind) for kind in ("plain", "patched")}

    def probed(kind: str) -> dict[str, Any]:
        home = homes[kind]
        command = [sys.executable, "-m", run.__name__, kind, str(home)]
        with (home / "stderr").open("w") as errors:
            completed = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, text=True, timeout=540)
        assert completed.returncode == 0, (home / "stderr").read_text()
        return json.loads(completed.stdout.splitlines()[-1])

    with ThreadPoolExecutor(2) as threads:
        return dict(zip(homes, threads.map(probed, homes), strict=True))


@PROBED
@pytest.mark.slow
@pytest.mark.parametrize("name", registry.PATCHES)
def test_a_patch_brings_its_behavior(results: dict[str, dict[str, Any]], name: str) -> None:
    assert name in results["patched"], f"write a probe for {name} in tests/local/probes"
    assert results["patched"][name]["seen"], results["patched"][name]["error"]


@PROBED
@pytest.mark.slow
@pytest.mark.parametrize("name", registry.PATCHES)
def test_plain_moto_still_needs_the_patch(results: dict[str, dict[str, Any]], name: str) -> None:
    assert not results["plain"][name]["seen"], f"this patch can go: moto does by itself what {name} brings"


@PROBED
@pytest.mark.slow
def test_every_probe_belongs_to_a_patch(results: dict[str, dict[str, Any]]) -> None:
    assert set(results["plain"]) == set(registry.PATCHES)


@pytest.mark.parametrize("name", SIMULATED)
def test_moto_still_lacks_a_simulated_type(name: str) -> None:
    """moto lacks a type if it has no class for it, or one of which an operation is abstract."""
    known = parsing.resource_class_from_type(name)
    operations = ("update_from_cloudformation_json", "delete_from_cloudformation_json")
    complete = known and not any(hasattr(getattr(known, method), "__isabstractmethod__") for method in operations)
    assert not complete, f"the simulated type can go: moto creates, updates and deletes {name} by itself"


@pytest.mark.parametrize("name", registry.PATCHES)
def test_a_patch_names_its_module_and_its_source(name: str) -> None:
    patch = registry.PATCHES[name]
    assert f"{moto_patches.__name__}.{name.partition('.')[0]}" == patch.install.__module__
    assert patch.source.startswith(("https://docs.aws.amazon.com/", "https://github.com/getmoto/moto/")) or (
        patch.brings.startswith("Speed: ") and patch.source.startswith("https://github.com/boto/botocore/")
    )
    assert patch.brings.endswith(".") and patch.moto.endswith(".")


def test_every_module_is_installed() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} - HELPERS == set(registry.MODULES)


@pytest.mark.parametrize("module", sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "registry"))
def test_a_module_sets_nothing_but_by_replace(module: str) -> None:
    """A module may set attributes of objects that it gets, but no attribute of a class or module that it imports."""
    tree = ast.parse((FOLDER / f"{module}.py").read_text())
    imported = {
        alias.asname or alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                assert _base(target) not in imported | {"cls"} or isinstance(target, ast.Name), ast.unparse(node)
        assert not (isinstance(node, ast.Call) and ast.unparse(node.func) == "setattr"), ast.unparse(node)


def _base(target: ast.expr) -> str:
    """Return the name at the left end of ``name.attribute[item]``."""
    while isinstance(target, ast.Attribute | ast.Subscript):
        target = target.value
    return target.id if isinstance(target, ast.Name) else ""


CHANGES = """
import json, sys
from cosmos_batch.local.moto_patches import registry

def owners():
    seen = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("moto", "botocore") and module is not None:
            seen[name] = module
            classes = [value for value in vars(module).values() if isinstance(value, type) and value.__module__ == name]
            seen.update({f"{name}.{value.__qualname__}": value for value in classes})
    return seen

registry.load_all()
before = {name: (owner, dict(vars(owner))) for name, owner in owners().items()}
registry.install_all()
changed = [
    (name, key)
    for name, (owner, attributes) in before.items()
    for key in {**attributes, **vars(owner)}
    if key not in attributes or key not in vars(owner) or vars(owner)[key] is not attributes[key]
]
print(json.dumps([changed, list(registry.REPLACED)]))
"""


def test_nothing_of_moto_changes_but_what_patches_replace() -> None:
    ran = subprocess.run([sys.executable, "-c", CHANGES], capture_output=True, text=True, check=True)
    changed, replaced = ({tuple(key) for key in keys} for keys in json.loads(ran.stdout))
    # Python sets these itself when an attribute of an abstract class is replaced, and when a class is subclassed.
    changed = {key for key in changed if key[1] not in ("_abc_impl", "__abstractmethods__")}
    assert changed <= replaced
    assert len(changed) > 100
