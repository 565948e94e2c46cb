"""The functions' dependencies as a folder that Lambda takes for a layer; fetched by pip, without Docker.

Only wheels for the functions' runtime and architecture are taken, whatever machine this is.
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
    """pip could not fetch the wheels. The text is what it said."""


def layer_folder() -> Path:
    """The folder of the lock as it stands, with `python/` in it; made once for each lock."""
    folder = _CACHE / f"layer-{_key()}"
    if not folder.exists():
        _CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_CACHE) as partial:
            _fetch(Path(partial) / "python")
            _publish(Path(partial), folder)
    return folder


def _key() -> str:
    return hashlib.sha256(b"\0".join([LOCK.read_bytes(), PYTHON.encode(), PLATFORM.encode()])).hexdigest()[:16]


def _fetch(target: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    command += ["--require-hashes", "--no-deps", "--requirement", str(LOCK), "--target", str(target)]
    command += ["--only-binary", ":all:", "--platform", PLATFORM, "--python-version", PYTHON, "--implementation", "cp"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise LayerError(f"the wheels of {LOCK} could not be fetched:\n{answer.stderr.strip()}")


def _publish(partial: Path, folder: Path) -> None:
    """Rename the complete layer into its place; another process may have been first, with the same content."""
    complete = folder.with_name(f"{folder.name}.{partial.name}")
    shutil.copytree(partial, complete)
    try:
        complete.rename(folder)
    except OSError:
        if not folder.exists():
            raise
        shutil.rmtree(complete)
