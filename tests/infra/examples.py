"""The example configurations, each synthesized once."""

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from cosmos_batch.contract import Config
from infra.synth import synthesize
from tests.infra.assembly import Assembly

FOLDER = Path(__file__).resolve().parents[2] / "examples"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


@cache
def example(name: str) -> Assembly:
    """The app of `examples/<name>.json`."""
    config_file = FOLDER / f"{name}.json"
    outdir = Path(mkdtemp(prefix=f"cosmos-batch-{name}-")) / "cdk.out"
    return Assembly(synthesize(Config.load(config_file), outdir, config_file))
