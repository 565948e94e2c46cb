"""The lock of an image's packages, for the image's Python and platform, whatever machine this is.

python -m containers.locks containers/reasoner/requirements.cu130.in
"""

import subprocess
import sys
from pathlib import Path

import uv

PLATFORM = "x86_64-manylinux_2_35"  # Debian 12 has glibc 2.36, Ubuntu 24.04 has 2.39
PYTHON = "3.12"
PYTHON_OF = {"framework": "3.13"}  # the Python version for which Cosmos Framework's own lock is made


def target(image: str) -> list[str]:
    """Return uv's options for the Python version and platform of an image."""
    return ["--python-platform", PLATFORM, "--python-version", PYTHON_OF.get(image, PYTHON)]


def write(requirements: Path) -> None:
    """Resolve a `requirements*.in` and write the lock beside it."""
    command = [uv.find_uv_bin(), "pip", "compile", str(requirements), *target(requirements.parent.name), "--quiet"]
    command += ["--generate-hashes", "--no-annotate", "--custom-compile-command", "make locks"]
    subprocess.run([*command, "--output-file", str(requirements.with_suffix(".lock"))], check=True)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
