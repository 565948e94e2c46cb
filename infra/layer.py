"""Download the functions' dependencies into a folder for a Lambda layer, with pip and without Docker.

pip takes only wheels for the functions' runtime and architecture, whatever machine it runs on.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "lambdas" / "requirements.txt"
PYTHON = "3.12"
PLATFORM = "manylinux2014_aarch64"
_CACHE = ROOT / "build" / "lambda"


class LayerError(Exception):
    """pip could not download the wheels. The message has its output."""


def layer_folder() -> Path:
    """Return the layer's folder, which contains `python/`; it is built once for each content of the lock file."""
    folder = _CACHE / f"layer-{_key()}"
    if not folder.exists():
        _CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_CACHE) as partial:
            _download(Path(partial) / "python")
            _publish(Path(partial), folder)
    return folder


def _key() -> str:
    return hashlib.sha256(b"\0".join([LOCK.read_bytes(), PYTHON.encode(), PLATFORM.encode()])).hexdigest()[:16]


def _download(target: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    command += ["--require-hashes", "--no-deps", "--requirement", str(LOCK), "--target", str(target)]
    command += ["--only-binary", ":all:", "--platform", PLATFORM, "--python-version", PYTHON, "--implementation", "cp"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        raise LayerError(f"pip could not download the wheels of {LOCK}:\n{process.stderr.strip()}")


def _publish(partial: Path, folder: Path) -> None:
    """Rename the complete layer to its final folder, unless another process has done so with the same content."""
    complete = folder.with_name(f"{folder.name}.{partial.name}")
    shutil.copytree(partial, complete)
    try:
        complete.rename(folder)
    except OSError:
        if not folder.exists():
            raise
        shutil.rmtree(complete)
