"""The functions import only what their zip contains, and import slow modules only when they need them."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import lambdas

FOLDER = Path(lambdas.__file__).parent
OURS = ("lambdas", "cosmos_batch.catalogue", "cosmos_batch.contract", "cosmos_batch.planning", "cosmos_batch.state")
ALLOWED = (*OURS, "boto3", "botocore", "pydantic")
FUNCTIONS = ("upload", "vams", "plan", "report", "scale", "dead_letter", "close_queue", "register_vams")
QUICK = {
    "lambdas",
    "cosmos_batch",
    "pydantic",
    "pydantic_core",
    "annotated_types",
    "typing_extensions",
    "typing_inspection",
}


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module
            names.add(node.module)
    return names


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.py")), ids=lambda path: str(path.relative_to(FOLDER)))
def test_only_what_the_zip_holds(path: Path) -> None:
    for name in imported(path):
        ours = any(name == root or name.startswith(f"{root}.") for root in ALLOWED)
        assert ours or name.partition(".")[0] in sys.stdlib_module_names, name


@pytest.mark.parametrize("function", FUNCTIONS)
def test_importing_a_handler_does_not_import_boto3_or_other_slow_modules(function: str) -> None:
    """A cold start waits for these imports.

    The test compares the loaded modules, because times depend on the machine.
    """
    program = (
        "import sys\n"
        "before = set(sys.modules)\n"
        f"import lambdas.handlers.{function}\n"
        "packages = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(*sorted(packages - set(sys.stdlib_module_names)))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], cwd=FOLDER.parent, capture_output=True, text=True, check=True
    )
    # Python itself loads a few whose names begin so.
    assert {name for name in answer.stdout.split() if not name.startswith("_")} <= QUICK
