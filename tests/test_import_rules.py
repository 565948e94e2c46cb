"""Each folder imports only what the table in docs/architecture.md allows."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from cosmos_batch.catalogue.engines import ENGINES
from cosmos_batch.catalogue.hardware import GPUS, INSTANCE_TYPES
from cosmos_batch.catalogue.pipelines import PIPELINES

ROOT = Path(__file__).parent.parent

OURS = {"cosmos_batch", "lambdas", "infra", "tests", "benchmarks"}
HEAVY = {
    "boto3",
    "botocore",
    "torch",
    "transformers",
    "diffusers",
    "vllm",
    "moto",
    "aws_cdk",
    "constructs",
    "av",
    "PIL",
    "cv2",
}

# Folder: which other folders of ours it may import, and which of the heavy libraries.
RULES: dict[str, tuple[set[str], set[str]]] = {
    "cosmos_batch/catalogue": (set(), set()),
    "cosmos_batch/contract": ({"cosmos_batch.catalogue"}, set()),
    "cosmos_batch/planning": ({"cosmos_batch.catalogue", "cosmos_batch.contract"}, set()),
    "cosmos_batch/media": ({"cosmos_batch.catalogue", "cosmos_batch.contract"}, {"av", "PIL", "cv2"}),
    "cosmos_batch/engines": (
        {"cosmos_batch.catalogue", "cosmos_batch.contract", "cosmos_batch.planning", "cosmos_batch.media"},
        {"torch", "transformers", "diffusers", "vllm", "PIL"},
    ),
    "cosmos_batch/state": (
        {"cosmos_batch.catalogue", "cosmos_batch.contract", "cosmos_batch.planning"},
        {"boto3", "botocore"},
    ),
    "cosmos_batch/store": ({"cosmos_batch.catalogue", "cosmos_batch.contract"}, {"boto3", "botocore"}),
    "cosmos_batch/worker": (
        {
            "cosmos_batch.catalogue",
            "cosmos_batch.contract",
            "cosmos_batch.planning",
            "cosmos_batch.media",
            "cosmos_batch.engines",
            "cosmos_batch.state",
            "cosmos_batch.store",
        },
        {"boto3", "botocore"},
    ),
    "cosmos_batch/local": (set(), {"boto3", "botocore", "moto"}),
    "cosmos_batch/robot_data": ({"cosmos_batch.contract", "cosmos_batch.media"}, set()),
    "cosmos_batch/viewing": ({"cosmos_batch.contract", "cosmos_batch.media", "cosmos_batch.planning"}, {"PIL"}),
    "cosmos_batch/console": (
        {"cosmos_batch.catalogue", "cosmos_batch.contract", "cosmos_batch.media", "cosmos_batch.viewing"},
        {"av", "PIL"},
    ),
    "cosmos_batch/demo": (
        {"cosmos_batch.catalogue", "cosmos_batch.contract", "cosmos_batch.engines.library_imports"},
        {"torch", "transformers", "av", "PIL"},
    ),
    "cosmos_batch/cli": (
        {
            "cosmos_batch.catalogue",
            "cosmos_batch.contract",
            "cosmos_batch.planning",
            "cosmos_batch.local",
            "cosmos_batch.media",
            "cosmos_batch.state",
            "cosmos_batch.store",
            "cosmos_batch.demo",
            "cosmos_batch.viewing",
            "cosmos_batch.robot_data",
            "cosmos_batch.console",
            "infra",
        },
        {"boto3", "botocore"},
    ),
    "lambdas": (
        {"cosmos_batch.catalogue", "cosmos_batch.contract", "cosmos_batch.planning", "cosmos_batch.state"},
        {"boto3", "botocore"},
    ),
    "infra": ({"cosmos_batch.catalogue", "cosmos_batch.contract", "cosmos_batch.planning"}, {"aws_cdk", "constructs"}),
}


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def modules(*folders: str) -> Iterator[Path]:
    """Yield the modules of some folders."""
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


@cache
def imports(path: Path) -> set[str]:
    """Return the names of all modules that a file imports, also within functions."""
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; say the whole name"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("folder", RULES)
def test_a_folder_imports_only_what_the_design_allows(folder: str) -> None:
    folders, libraries = RULES[folder]
    allowed = folders | {folder.replace("/", ".")}
    files = list((ROOT / folder).rglob("*.py"))
    assert files, f"{folder} is empty"
    for path in files:
        for module in imports(path):
            top = module.split(".")[0]
            if top in OURS:
                assert any(f"{module}.".startswith(f"{one}.") for one in allowed), f"{path} imports {module}"
            assert top not in HEAVY - libraries, f"{path} imports {module}"


@pytest.mark.parametrize(
    ("folder", "below"),
    [
        ("serving", {"serving"}),
        ("torchrun", {"serving", "torchrun"}),
        ("vllm", {"serving", "vllm"}),
        ("cosmos_framework", {"torchrun", "cosmos_framework"}),
        ("reasoner", {"serving", "torchrun", "vllm", "cosmos_framework", "reasoner"}),
    ],
)
def test_modules_that_engines_share_import_no_engine(folder: str, below: set[str]) -> None:
    folders = {path.parent.name for path in (ROOT / "cosmos_batch/engines").glob("*/__init__.py")}
    for path in (ROOT / "cosmos_batch/engines" / folder).rglob("*.py"):
        for module in imports(path):
            inner = module.removeprefix("cosmos_batch.engines.").split(".")[0]
            assert inner not in folders - below, f"{path} imports {module}"


@pytest.mark.parametrize("folder", ["serving", "torchrun"])
def test_modules_that_servers_share_name_no_program(folder: str) -> None:
    """Another server program is a folder beside `vllm`, and `serving` stays as it is."""
    names = {*ENGINES, *(row.title.lower() for row in ENGINES.values())}
    programs = {"omni", "sglang", *names, *(name.replace("-", "_") for name in names)}
    for path in (ROOT / "cosmos_batch/engines" / folder).rglob("*.py"):
        text = path.read_text(encoding="utf-8").lower().replace("vllm-project/vllm issue", "")
        for program in programs:
            assert program not in text, f"{path} names {program}"


def test_the_local_cloud_knows_no_app() -> None:
    """It is for any CDK app: its code names this project in import paths alone, its tests import no other folder."""
    for path in (ROOT / "cosmos_batch/local").rglob("*.py"):
        text = path.read_text(encoding="utf-8").replace("cosmos_batch.local", "")
        assert "cosmos" not in text.lower(), path
        assert not re.search(r"lambdas/|infra/|VAMS|vLLM|Hugging ?Face|HF_", text), path
    for path in (ROOT / "tests/local").rglob("*.py"):
        for module in imports(path):
            if module.split(".")[0] in OURS:
                assert module.startswith(("cosmos_batch.local.", "tests.local")), f"{path} imports {module}"


def test_every_folder_has_a_rule() -> None:
    folders = {
        f"cosmos_batch/{path.name}" for path in (ROOT / "cosmos_batch").iterdir() if (path / "__init__.py").exists()
    }
    assert folders | {"lambdas", "infra"} == set(RULES)


def test_the_table_of_folders_in_the_documentation_is_the_rules() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w/]+)/` \|.*\| ([^|]*) \|$", page.partition("## The folders\n")[2], re.MULTILINE)
    documented = {folder: allowed_by(cell) for folder, cell in rows}
    assert documented == {folder: folders for folder, (folders, _) in RULES.items()}


def allowed_by(cell: str) -> set[str]:
    """Return the folders that a cell of the table names, as RULES writes them."""
    if cell == "nothing of ours":
        return set()
    if cell == "infra, and all of `cosmos_batch/` but worker and engines":
        others = {"cosmos_batch/cli", "cosmos_batch/worker", "cosmos_batch/engines", "lambdas"}
        return {folder.replace("/", ".") for folder in RULES.keys() - others}
    return {f"cosmos_batch.{name.replace('/', '.')}" for name in cell.split(", ")}


def test_a_class_name_means_one_class() -> None:
    places: dict[str, list[str]] = {}
    for path in modules("cosmos_batch", "lambdas", "infra", "containers", "training", "benchmarks"):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_a_type_is_defined_once() -> None:
    """A name such as `Size` is one class or one alias, which others import. The local cloud is a library of its own."""
    places: dict[str, list[str]] = {}
    for path in modules("cosmos_batch", "lambdas", "infra"):
        folder = "local: " if path.is_relative_to(ROOT / "cosmos_batch/local") else ""
        for node in parsed(path).body:
            for name in types_defined_by(node):
                places.setdefault(folder + name, []).append(str(path.relative_to(ROOT)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def types_defined_by(statement: ast.stmt) -> list[str]:
    """Return the name of a class or of an alias of a type; not of a type variable, a constant or a private name."""
    if isinstance(statement, ast.ClassDef):
        names = [statement.name]
    elif isinstance(statement, ast.Assign) and "TypeVar" not in ast.unparse(statement.value):
        names = [target.id for target in statement.targets if isinstance(target, ast.Name)]
    else:
        return []
    return [name for name in names if re.fullmatch("[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*", name)]


def test_facts_about_pipelines_engines_and_hardware_stand_in_the_catalogue() -> None:
    """No other folder has a dictionary by their names, which a new row of the catalogue would have to extend."""
    names = {*(pipeline.id for pipeline in PIPELINES), *(pipeline.model_size for pipeline in PIPELINES)}
    names |= {*ENGINES, *GPUS, *INSTANCE_TYPES}
    # NVIDIA's cookbooks have a variable for the server of two of the models.
    exceptions = {ROOT / "cosmos_batch/cli/configuration.py"}
    for path in set(modules("cosmos_batch", "lambdas", "infra")) - exceptions - set(modules("cosmos_batch/catalogue")):
        for node in ast.walk(parsed(path)):
            keys = node.keys if isinstance(node, ast.Dict) else []
            found = [key.value for key in keys if isinstance(key, ast.Constant) and key.value in names]
            assert not found, f"{path}: the table by {found} belongs into cosmos_batch/catalogue"


def test_synthesis_asks_the_network_nothing() -> None:
    """`from_lookup` asks the account while it synthesizes; a template would then differ from person to person."""
    for path in [*(ROOT / "infra").rglob("*.py"), ROOT / "app.py"]:
        assert "from_lookup" not in path.read_text(encoding="utf-8"), path
