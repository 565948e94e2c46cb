"""The circumstances of a measurement: the machine, the day, and the code."""

import os
import platform
import shutil
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import cache_from_source, find_spec
from pathlib import Path

COMMIT = "COSMOS_BATCH_COMMIT"
"""Environment variable with the commit of a copy of this repository that has no history."""

_ROOT = Path(__file__).parent.parent


def circumstances() -> dict[str, str]:
    """Return the machine, today's date, and the commit of the code: what the results of each measurement begin with."""
    return {"machine": machine(), "day": f"{datetime.now(UTC):%Y-%m-%d}", "commit": commit(_ROOT)}


def software(*packages: str) -> dict[str, str | bool | None]:
    """Return the versions of packages, and two things on which the time of their start depends: whether they are
    compiled to bytecode, as in our images, and where programs look for CUDA's compiler, which our images have not.
    """
    bytecode = all(map(_has_bytecode, packages))
    return {**{name: version(name) for name in packages}, "bytecode": bytecode, "cudaHome": os.getenv("CUDA_HOME")}


def _has_bytecode(package: str) -> bool:
    spec = find_spec(package)
    return spec is not None and spec.origin is not None and Path(cache_from_source(spec.origin)).exists()


def commit(folder: Path) -> str:
    """Return the commit of a working tree, marked where files differ from it; "unknown" where nothing tells it."""
    if named := os.environ.get(COMMIT):
        return named
    describe = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--exclude=*"]
    if shutil.which("git") is None:
        return "unknown"
    return subprocess.run(describe, capture_output=True, text=True).stdout.strip() or "unknown"


def machine() -> str:
    """Return cores, memory, GPU and version of Python as one text."""
    [model] = {
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if line.startswith("model name")
    } or {platform.machine()}
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores ({model}), {memory:.0f} GiB, {_gpu()}, Python {platform.python_version()}"


def gpus_of_this_process(first: bool = False) -> list[str]:
    """Return the options with which nvidia-smi tells of the GPUs that this process may use, or of the first of them."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if first:
        chosen = chosen.partition(",")[0] or "0"
    return [f"--id={chosen}"] if chosen else []


def _gpu() -> str:
    if shutil.which("nvidia-smi") is None:
        return "no GPU"
    query = ["nvidia-smi", *gpus_of_this_process(), "--query-gpu=name,driver_version", "--format=csv,noheader"]
    gpus = subprocess.run(query, check=True, capture_output=True, text=True).stdout.splitlines()
    name, driver = gpus[0].split(", ")
    return f"{len(gpus)} {name} (driver {driver})"
