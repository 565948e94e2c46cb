"""Adds vLLM's CPU build to `.venv`, for the tests that run it; `scripts/setup.sh` comes first.

Where it cannot be had (it is built for Linux on x86-64 and arm64), everything else goes on without it.
"""

import subprocess
import time

from install import CONSTRAINTS, LOUDNESS, PYTHON, ROOT, VENV, has_nvidia_gpu, say, uv_environment

PACKAGE = ROOT / "scripts" / "vllm_cpu"


def main() -> None:
    """Install it, or say why its tests will be skipped."""
    if has_nvidia_gpu():
        say("Note: this machine has an NVIDIA GPU, so vLLM's CPU build is not installed. Its tests are skipped.")
        return
    began = time.monotonic()
    say("Adding vLLM's CPU build to .venv, about a minute, once")
    # uv alone can leave out requirements that break vLLM, so there is no second try with pip.
    uv = [PYTHON, "-m", "uv", "pip", "install", "--compile-bytecode", *LOUDNESS]
    arguments = ["--overrides", str(PACKAGE / "overrides.txt"), "--constraint", str(CONSTRAINTS), str(PACKAGE)]
    if subprocess.run([*uv, *arguments], env=uv_environment()).returncode:
        say("Note: vLLM's CPU build cannot be installed here; uv's message stands above. Its tests are skipped.")
        return
    (VENV / "vllm").touch()
    say(f"vLLM added in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
