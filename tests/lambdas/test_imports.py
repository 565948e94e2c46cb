"""A function imports the contract, the state room and boto3, and starts quickly."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import lambdas

FOLDER = Path(lambdas.__file__).parent
ALLOWED = ("lambdas", "cosmos_batch.contract", "cosmos_batch.state", "boto3", "botocore", "pydantic")
FUNCTIONS = ("upload", "vams", "plan", "report", "scale", "dead_letter", "register_vams")
IMPORT_SECONDS = 0.4


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module
            names.add(node.module)
    return names


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_only_what_the_zip_holds(path: Path) -> None:
    for name in imported(path):
        ours = any(name == root or name.startswith(f"{root}.") for root in ALLOWED)
        assert ours or name.partition(".")[0] in sys.stdlib_module_names, name


@pytest.mark.parametrize("function", FUNCTIONS)
def test_an_import_takes_little_and_leaves_boto3_for_later(function: str) -> None:
    # CPU time: what else runs on this machine is not the import's.
    program = (
        "import sys, time\n"
        "started = time.process_time()\n"
        f"import lambdas.{function}\n"
        "print(time.process_time() - started, 'boto3' in sys.modules)"
    )
    answers = [
        subprocess.run([sys.executable, "-c", program], cwd=FOLDER.parent, capture_output=True, text=True, check=True)
        for _ in range(3)
    ]
    seconds, has_boto3 = min(answer.stdout.split() for answer in answers)
    assert float(seconds) < IMPORT_SECONDS
    assert has_boto3 == "False"
