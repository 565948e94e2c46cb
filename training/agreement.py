"""Ask the demo model the same questions through Transformers and through vLLM, and compare the answers.

`python -m training.agreement CHECKPOINT --clips 200 --out agreement.json` takes clips and questions of the evaluation.
It also measures how long an answer takes and how much memory each engine's processes have.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosmos_batch.engines.factory import create_engine
from training.evaluate import answer_file, draw_item, is_right, sha256_of

ENGINES = ("transformers", "vllm")


@dataclass(frozen=True)
class EngineAnswer:
    """One engine's answer to the question of the item with a number, with the seconds that it took."""

    number: int
    question: str
    answer: str
    right: bool
    seconds: float


@dataclass(frozen=True)
class EngineAnswers:
    """One engine's answers to all questions in their order, and what they cost in time and memory."""

    engine: str
    load_seconds: float
    memory_gib: float
    answers: list[EngineAnswer]

    def summary(self) -> dict[str, Any]:
        """Return the figures for a person."""
        seconds = [one.seconds for one in self.answers]
        return {
            "engine": self.engine,
            "asked": len(self.answers),
            "right": sum(one.right for one in self.answers),
            "median seconds": round(statistics.median(seconds), 2),
            "largest seconds": round(max(seconds), 2),
            "load seconds": round(self.load_seconds, 1),
            "GiB of its processes": round(self.memory_gib, 2),
        }


async def ask_engine(name: str, checkpoint: Path, clips: int) -> EngineAnswers:
    """Load the checkpoint into an engine, and ask it about a number of clips and images, one after the other."""
    engine = create_engine(name)
    began = time.monotonic()
    await asyncio.to_thread(engine.load, checkpoint)
    loaded = time.monotonic() - began
    answers = []
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(clips):
            item = draw_item(number, Path(scratch))
            began = time.monotonic()
            answer = await answer_file(engine, item.path, item.question.text)
            seconds = round(time.monotonic() - began, 3)
            answers.append(EngineAnswer(number, item.question.text, answer, is_right(item.question, answer), seconds))
            item.path.unlink()
    memory = memory_of_session()
    label = engine.name
    engine.close()
    return EngineAnswers(label, loaded, memory, answers)


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


def report(checkpoint: Path, engines: list[EngineAnswers], load: list[tuple[float, float, float]]) -> dict[str, Any]:
    """Return how often both engines agree, their figures and every answer. `load` is the machine's, at both ends."""
    first, second = engines
    same = sum(one.answer == other.answer for one, other in zip(first.answers, second.answers, strict=True))
    return {
        "weights": sha256_of(checkpoint / "model.safetensors"),
        "cores": os.cpu_count(),
        "load averages before, between and after": load,
        "asked": len(first.answers),
        "the same answer": same,
        "engines": [one.summary() for one in engines],
        "answers": {one.engine: [vars(answer) for answer in one.answers] for one in engines},
    }


def main(arguments: list[str]) -> None:
    """Read the command line, ask both engines, and print how often they agree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--clips", type=int, default=200)
    parser.add_argument("--out", type=Path, help="JSON file for the figures and every answer with its seconds")
    options = parser.parse_args(arguments)
    engines, load = [], [os.getloadavg()]
    for name in ENGINES:
        engines.append(asyncio.run(ask_engine(name, options.checkpoint, options.clips)))
        load.append(os.getloadavg())
    summary = report(options.checkpoint, engines, load)
    print(json.dumps({name: value for name, value in summary.items() if name != "answers"}, indent=2))
    if options.out:
        options.out.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
