"""Make the demo model again from nothing: `python -m training.stages build/demo` runs all stages, one after the other.

Each starts from the weights of the one before and takes about nine minutes on an H100. A stage whose folder is there
already is not run again, so that a command that was interrupted can be repeated.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from training.train import train


@dataclass(frozen=True)
class Stage:
    """One run of `training.train`. Another seed draws other clips."""

    seed: int
    rate: float
    minutes: float


STAGES = (
    Stage(seed=1, rate=1e-3, minutes=9.3),
    Stage(seed=2, rate=8e-4, minutes=9.2),
    Stage(seed=3, rate=6e-4, minutes=9.0),
    Stage(seed=4, rate=5e-4, minutes=9.1),
)


def run_stages(folder: Path, workers: int, patches: int, compiled: bool) -> Path:
    """Run each stage whose folder is not there yet, and return the folder of the last one."""
    previous = None
    for number, stage in enumerate(STAGES, start=1):
        out = folder / f"stage{number}"
        if not (out / "model.safetensors").exists():
            train(out, previous, stage.minutes, stage.rate, stage.seed, workers, patches, compiled)
        previous = out
    assert previous is not None
    return previous


def main(arguments: list[str]) -> None:
    """Read the command line, train, and print where the checkpoint lies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the stages' checkpoints are written below it")
    parser.add_argument("--workers", type=int, default=16, help="processes that draw clips")
    parser.add_argument("--patches", type=int, default=98_304, help="size of a batch; a CPU wants a thirtieth of it")
    parser.add_argument("--no-compile", action="store_true", help="do not compile the layers")
    options = parser.parse_args(arguments)
    print(run_stages(options.folder, options.workers, options.patches, not options.no_compile))


if __name__ == "__main__":
    main(sys.argv[1:])
