"""Synthesize each of the example configurations once."""

import os
from fcntl import LOCK_EX, flock
from functools import cache
from pathlib import Path
from tempfile import gettempdir

from cosmos_batch.planning.configuration import load_config
from infra.synth import synthesize
from tests.infra.assembly import Assembly

FOLDER = Path(__file__).resolve().parents[2] / "examples"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
OF_THIS_RUN = Path(gettempdir()) / f"cosmos-batch-examples-{os.environ.get('PYTEST_XDIST_TESTRUNUID', os.getpid())}"


@cache
def example(name: str) -> Assembly:
    """Return the app of `examples/<name>.json`. One process of a test run writes it, and the others read it."""
    config_file, outdir = FOLDER / f"{name}.json", OF_THIS_RUN / name / "cdk.out"
    outdir.parent.mkdir(parents=True, exist_ok=True)
    with (outdir.parent / "lock").open("w") as lock:
        flock(lock, LOCK_EX)
        if not (outdir / "manifest.json").exists():
            synthesize(load_config(config_file), outdir, config_file)
    return Assembly(outdir)
