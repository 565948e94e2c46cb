"""Benchmark of deployment to the local cloud: synthesis, template sizes, and times to create, update and destroy."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.measurement import Measurement
from cosmos_batch.cli.local_cloud import start_local_cloud
from cosmos_batch.local.cloud import LocalCloud
from cosmos_batch.local.deploy import deploy

ROOT = Path(__file__).parents[2]
EVERYTHING = ROOT / "examples" / "everything.json"
MAX_RESOURCES, MAX_TEMPLATE_BYTES = 500, 1_000_000  # CloudFormation's limits for one stack
CDK = ("npx", "cdk", "--no-notices")


def measure() -> list[Measurement]:
    """Measure with `examples/everything.json`; also with the CDK's own command, if it is installed (`npm ci`)."""
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder) / "checkout"
        ignored = shutil.ignore_patterns(".git", ".venv", "cdk.out", "__pycache__")
        shutil.copytree(ROOT, checkout, symlinks=True, ignore=ignored)
        (checkout / ".venv").symlink_to(ROOT / ".venv")
        measured = [_synthesis(checkout, "cold"), _synthesis(checkout, "warm"), *_sizes(checkout / "cdk.out")]
        measured += _own_deployment(checkout, Path(folder) / "own")
        if (ROOT / "node_modules").exists():
            measured += _cdk_deployment(checkout, Path(folder) / "cdk")
    return measured


def _synthesis(checkout: Path, name: str) -> Measurement:
    if name == "cold":
        shutil.rmtree(checkout / "build", ignore_errors=True)
    return _row(f"synthesis of everything, {name}", _timed(lambda: _run(checkout, sys.executable, "app.py")))


def _sizes(assembly: Path) -> list[Measurement]:
    templates = {path.name.split(".")[0]: path.read_bytes() for path in sorted(assembly.glob("*.template.json"))}
    resources = {name: len(json.loads(body)["Resources"]) for name, body in templates.items()}
    sizes = {name: len(body) for name, body in templates.items()}
    return [
        Measurement(
            name="resources per stack, everything",
            value=", ".join(f"{name.split('-')[1]} {count}" for name, count in resources.items()),
            limit=f"at most {MAX_RESOURCES}",
            met=max(resources.values()) <= MAX_RESOURCES,
            raw={"resources": resources},
        ),
        Measurement(
            name="template sizes, everything",
            value=", ".join(f"{name.split('-')[1]} {size / 1000:.0f} kB" for name, size in sizes.items()),
            limit=f"at most {MAX_TEMPLATE_BYTES / 1e6:.0f} MB",
            met=max(sizes.values()) <= MAX_TEMPLATE_BYTES,
            raw={"bytes": sizes},
        ),
    ]


def _own_deployment(checkout: Path, home: Path) -> list[Measurement]:
    assembly = checkout / "cdk.out"
    with start_local_cloud(home, parent_pid=os.getpid()) as cloud:
        created = _timed(lambda: deploy(assembly, cloud, on_stack=lambda _: None))
        _change_a_function(checkout)
        _run(checkout, sys.executable, "app.py")
        updated = _timed(lambda: deploy(assembly, cloud, on_stack=lambda _: None))
        destroyed = _timed(lambda: _destroy(cloud))
    steps = {"create": created, "update of one Lambda": updated, "destroy": destroyed}
    return [_row(f"local cloud, own deployment, assembly given: {name}", seconds) for name, seconds in steps.items()]


def _cdk_deployment(checkout: Path, home: Path) -> list[Measurement]:
    with start_local_cloud(home, parent_pid=os.getpid()) as cloud:
        environment = {**cloud.environment, "COSMOS_BATCH_CONFIG": str(EVERYTHING), "CDK_DISABLE_CLI_TELEMETRY": "1"}

        def cdk(*arguments: str) -> float:
            return _timed(lambda: _run(checkout, *CDK, *arguments, **environment))

        steps = {"bootstrap": cdk("bootstrap")}
        steps["create"] = cdk("deploy", "--all", "--require-approval", "never")
        _change_a_function(checkout)
        steps["update of one Lambda"] = cdk("deploy", "--all", "--require-approval", "never")
        steps["destroy"] = cdk("destroy", "--all", "--force")
    return [_row(f"local cloud, `npx cdk`, synthesis included: {name}", seconds) for name, seconds in steps.items()]


def _change_a_function(checkout: Path) -> None:
    handler = checkout / "lambdas" / "handlers" / "dead_letter.py"
    handler.write_text(handler.read_text(encoding="utf-8") + "\n# changed\n", encoding="utf-8")


def _destroy(cloud: LocalCloud) -> None:
    cloudformation = cloud.client("cloudformation")
    for stack in reversed(cloudformation.describe_stacks()["Stacks"]):
        cloudformation.delete_stack(StackName=stack["StackName"])


def _run(checkout: Path, *command: str, **environment: str) -> None:
    settings = {"COSMOS_BATCH_CONFIG": str(EVERYTHING), **environment}
    subprocess.run(command, cwd=checkout, env={**os.environ, **settings}, check=True, capture_output=True)


def _timed(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def _row(name: str, seconds: float) -> Measurement:
    return Measurement(name=name, value=f"{seconds:.1f} s", limit="none", met=True, raw={"seconds": seconds})
