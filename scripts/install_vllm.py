"""Adds vLLM to `.venv`; `scripts/setup.sh` comes first.

Without arguments: its CPU build, for the tests that run it. Where it is not available (it is built for Linux on x86-64
and arm64), everything else goes on without it. With `gpu`: the one for this machine's NVIDIA GPU, for `cosmos-batch
run`.
"""

import subprocess
import sys
import time

from install import CONSTRAINTS, EXTRAS, LOUDNESS, PYTHON, ROOT, VENV, has_nvidia_gpu, say, uv_environment

PACKAGE = ROOT / "scripts" / "vllm_cpu"
VERSION = "0.32.0"  # the version in the reasoner's image


def main(arguments: list[str]) -> None:
    """Install vLLM for the GPU or for the CPU, or print why that is not possible."""
    if arguments == ["gpu"]:
        install_for_gpu()
    else:
        install_for_tests()


def install_for_gpu() -> None:
    """Install vLLM's build for GPUs, with all packages resolved anew: they differ from those of `constraints.txt`."""
    if not has_nvidia_gpu():
        sys.exit("error: no NVIDIA GPU was found on this machine, and vLLM needs one. Transformers answers without.")
    say(f"Adding vLLM {VERSION} and CUDA to .venv: some 10 GB, once")
    if not uv("--editable", f"{ROOT}[{EXTRAS}]", f"vllm=={VERSION}"):
        sys.exit("error: vLLM could not be installed; uv's message stands above.")


def install_for_tests() -> None:
    """Install vLLM's build for CPUs, which the tests of vLLM run on; print a note where that is not possible."""
    if has_nvidia_gpu():
        say("Note: this machine has an NVIDIA GPU, so vLLM's CPU build is not installed. Its tests are skipped.")
        return
    began = time.monotonic()
    say("Adding vLLM's CPU build to .venv, about a minute, once")
    # uv alone can leave out requirements that break vLLM, so there is no second try with pip.
    overrides = ["--overrides", str(PACKAGE / "overrides.txt"), "--constraint", str(CONSTRAINTS)]
    if not uv(*overrides, str(PACKAGE)):
        say("Note: vLLM's CPU build cannot be installed here; uv's message stands above. Its tests are skipped.")
        return
    (VENV / "vllm").touch()
    say(f"vLLM added in {time.monotonic() - began:.0f} s")


def uv(*arguments: str) -> bool:
    """Install packages into `.venv` with uv, and return whether that succeeded."""
    command = [PYTHON, "-m", "uv", "pip", "install", "--compile-bytecode", *LOUDNESS, *arguments]
    return subprocess.run(command, env=uv_environment()).returncode == 0


if __name__ == "__main__":
    main(sys.argv[1:])
