"""Synthesize the cloud assembly of a configuration once, and again when one of its sources changes."""

import hashlib
import shutil
import tempfile
from multiprocessing.pool import Pool
from pathlib import Path

from cosmos_batch.cli.configuration import ROOT
from cosmos_batch.planning.configuration import load_config

SOURCES = ("app.py", "cdk.json", "pyproject.toml", "containers", "cosmos_batch", "deployment", "infra", "lambdas")
KEPT = 4  # assemblies. Each holds copies of its assets


def assembly(config_file: Path, home: Path, pool: Pool) -> "Assembly":
    """Begin to synthesize a configuration in the pool, unless its assembly exists."""
    return Assembly(config_file, home / "assemblies" / _digest(config_file), pool)


class Assembly:
    """A cloud assembly that may still be under way."""

    def __init__(self, config_file: Path, folder: Path, pool: Pool) -> None:
        self._folder = folder
        self._work = None if folder.exists() else pool.apply_async(_synthesize, (config_file, folder))

    @property
    def reused(self) -> bool:
        """Return whether the assembly existed before."""
        return self._work is None

    def wait(self) -> Path:
        """Wait until the assembly is complete and return its folder. Raises what synthesis raised."""
        if self._work is not None:
            self._work.get()
        return self._folder


def _synthesize(config_file: Path, folder: Path) -> None:
    """Write an assembly and rename it into its place, so that an interrupted one leaves nothing behind."""
    from infra.synth import synthesize

    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        synthesize(load_config(config_file), Path(scratch) / "cdk.out", config_file)
        (Path(scratch) / "cdk.out").rename(folder)
    _prune(folder.parent)


def _prune(assemblies: Path) -> None:
    folders = sorted(assemblies.iterdir(), key=lambda folder: folder.stat().st_mtime, reverse=True)
    for folder in folders[KEPT:]:
        shutil.rmtree(folder, ignore_errors=True)


def _digest(config_file: Path) -> str:
    """Return a digest of all that synthesis reads, and of the configuration's path, which the assembly names."""
    state = hashlib.sha256(f"{ROOT}\0{config_file}\0".encode() + config_file.read_bytes())
    for path in _source_files():
        state.update(f"\0{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return state.hexdigest()[:16]


def _source_files() -> list[Path]:
    paths = [path for name in SOURCES for path in [ROOT / name, *(ROOT / name).rglob("*")]]
    return sorted(path for path in paths if path.is_file() and "__pycache__" not in path.parts)
