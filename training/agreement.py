"""Ask the demo model the same questions through Transformers and through vLLM, and compare the answers.

`python -m training.agreement CHECKPOINT --clips 200 --out agreement.json` takes clips and questions of the evaluation.
It also measures how long an answer takes and how much memory each engine's processes have.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from cosmos_batch.engines.factory import create_engine
from training.evaluate import answer_file, draw_item, is_right

ENGINES = ("transformers", "vllm")


@dataclass(frozen=True)
class Asked:
    """The answers of one engine to all questions, in the order of the questions, with their cost in time and memory."""

    engine: str
    answers: list[str]
    right: int
    seconds: list[float]
    load_seconds: float
    memory_gib: float

    def summary(self) -> dict[str, object]:
        """Return the figures for a person."""
        return {
            "engine": self.engine,
            "right": f"{self.right} of {len(self.answers)}",
            "median seconds an answer": round(statistics.median(self.seconds), 2),
            "longest answer, seconds": round(max(self.seconds), 2),
            "load, seconds": round(self.load_seconds, 1),
            "memory of its processes, GiB": round(self.memory_gib, 2),
        }


async def ask_engine(name: str, checkpoint: Path, clips: int) -> Asked:
    """Load the checkpoint into an engine and ask it about so many clips and images, one after the other."""
    engine = create_engine(name)
    began = time.monotonic()
    await asyncio.to_thread(engine.load, checkpoint)
    loaded = time.monotonic() - began
    answers, seconds, right = [], [], 0
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(clips):
            item = draw_item(number, Path(scratch))
            began = time.monotonic()
            answers.append(await answer_file(engine, item.path, item.question.text))
            seconds.append(time.monotonic() - began)
            right += is_right(item.question, answers[-1])
            item.path.unlink()
    memory = memory_of_session()
    label = engine.name
    engine.close()
    return Asked(label, answers, right, seconds, loaded, memory)


def memory_of_session() -> float:
    """Return the proportional memory of this process and its descendants, in GiB (`Pss` of Linux's `smaps_rollup`)."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has ended meanwhile
    family = {int(Path("/proc/self").resolve().name)}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(_kib(pid) for pid in family) / 1024**2


def _kib(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def main(arguments: list[str]) -> None:
    """Read the command line, ask both engines, and print how often they agree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--clips", type=int, default=200)
    parser.add_argument("--out", type=Path, help="JSON file for the figures and the answers that differ")
    options = parser.parse_args(arguments)
    first, second = (asyncio.run(ask_engine(name, options.checkpoint, options.clips)) for name in ENGINES)
    differing = [pair for pair in zip(first.answers, second.answers, strict=True) if pair[0] != pair[1]]
    figures = {
        "clips": options.clips,
        "the same answer": options.clips - len(differing),
        "engines": [first.summary(), second.summary()],
    }
    print(json.dumps(figures, indent=2))
    if options.out:
        options.out.write_text(json.dumps({**figures, "differing": differing}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
