"""Creates `.venv` and installs what `pyproject.toml` names, at the versions of `constraints.txt`.

Standard library only: it runs before anything is installed. It may be interrupted and run again at any point.
"""

import ast
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = str(VENV / "bin" / "python")
CONSTRAINTS = ROOT / "constraints.txt"
EXTRAS = "reasoner,generator,diffusers,infra,local,dev"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"

# uv reads none of pip's configuration. What pip was told on this machine, uv is told under these names.
UV_NAMES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "no-index": "UV_NO_INDEX",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "proxy": "ALL_PROXY",
}

# On a terminal the tools show their progress; elsewhere they speak up only when something is wrong.
LOUDNESS = [] if sys.stdout.isatty() else ["--quiet"]


def main() -> None:
    """Set up the environment, and print how long it took."""
    began = time.monotonic()
    say(f"Setting up .venv with Python {sys.version.split()[0]}, about a minute, once")
    create_venv()
    if not has_nvidia_gpu():
        install_cpu_torch()
    install("--editable", f"{ROOT}[{EXTRAS}]", "--constraint", str(CONSTRAINTS))
    (VENV / "installed").touch()
    say(f"Set up in {time.monotonic() - began:.0f} s")


def say(text: str) -> None:
    """Print at once, also into a pipe."""
    print(text, flush=True)


def create_venv() -> None:
    """Make the virtual environment, unless there is one that works, and put uv into it: pip takes five times as long.

    Where uv is not available, pip goes on alone.
    """
    works = (
        Path(PYTHON).exists()
        and subprocess.run([PYTHON, "-m", "pip", "--version"], capture_output=True).returncode == 0
    )
    if not works:
        venv.create(VENV, clear=True, with_pip=True)
    subprocess.run([PYTHON, "-m", "pip", "install", "--quiet", pinned("uv")], capture_output=True)


def install(*arguments: str) -> None:
    """Install with uv, and with pip where uv fails: pip is what this machine is configured for.

    Both compile what they install: importing torch and transformers would take three times as long.
    """
    uv = [PYTHON, "-m", "uv", "pip", "install", "--compile-bytecode"]
    if subprocess.run([*uv, *LOUDNESS, *arguments], env=uv_environment()).returncode:
        say("Note: uv could not do it, so pip does; this takes a few minutes.")
        pip = subprocess.run([PYTHON, "-m", "pip", "install", *LOUDNESS, *arguments])
        if pip.returncode:
            sys.exit("error: the packages could not be installed; pip's message stands above.")


def uv_environment() -> dict[str, str]:
    """Return the environment variables with which uv does what pip is configured to do."""
    listed = subprocess.run([PYTHON, "-m", "pip", "config", "list"], capture_output=True, text=True).stdout
    # Lines such as `global.find-links='/wheels'`; those of the environment (`:env:`) come last and win.
    settings = dict(line.split("=", 1) for line in listed.splitlines() if "=" in line)
    values = {name.rpartition(".")[2]: str(ast.literal_eval(value)) for name, value in settings.items()}
    translated = {UV_NAMES[name]: value for name, value in values.items() if name in UV_NAMES}
    if "UV_FIND_LINKS" in translated:  # pip separates several by spaces, uv by commas
        translated["UV_FIND_LINKS"] = ",".join(translated["UV_FIND_LINKS"].split())
    # uv would take whatever the first index has; pip takes the best version of all.
    return {"UV_INDEX_STRATEGY": "unsafe-best-match", **translated, **os.environ, "VIRTUAL_ENV": str(VENV)}


def has_nvidia_gpu() -> bool:
    """Return whether this machine has an NVIDIA GPU, for which CUDA builds are needed."""
    return shutil.which("nvidia-smi") is not None or Path("/proc/driver/nvidia").exists()


def install_cpu_torch() -> None:
    """Install builds of torch and torchvision without CUDA's gigabytes, where somebody offers them.

    This machine's own pip configuration goes first; then PyTorch's index of CPU builds.
    """
    offered_here = not needs_cuda(pinned("torch"))
    wanted = ["torchvision"] if offered_here else ["torch", "torchvision"]
    if reachable(CPU_INDEX):
        # Without dependencies: theirs are constrained, and the CPU index does not hold every version of them.
        install("--no-deps", "--index-url", CPU_INDEX, *(pinned(name) for name in wanted))
    elif not offered_here:
        say(f"Note: {CPU_INDEX} cannot be reached, so torch comes with CUDA: larger, and not needed here.")


def pinned(name: str) -> str:
    """Return `name==version` as the constraints have it."""
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith(f"{name}=="))


def needs_cuda(requirement: str) -> bool:
    """Return whether the build that this machine's pip would choose brings NVIDIA's packages."""
    command = [PYTHON, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--no-deps", "-qq"]
    report = subprocess.run([*command, "--report", "-", requirement], stdout=subprocess.PIPE, text=True)
    if report.returncode:
        sys.exit(f"error: {requirement} cannot be installed; pip's message stands above.")
    metadata = json.loads(report.stdout)["install"][0]["metadata"]
    return any(one.startswith(("nvidia-", "cuda-")) for one in metadata.get("requires_dist", []))


def reachable(url: str) -> bool:
    """Return whether an address answers. The installers themselves would try for a minute."""
    try:
        with urllib.request.urlopen(f"{url}/torch/", timeout=10) as answer:  # noqa: S310 - the address is ours
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


if __name__ == "__main__":
    main()
