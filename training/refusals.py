"""Count how often the demo model refuses real images and clips, which it does not know.

`python -m training.refusals CHECKPOINT FOLDER --out refusals.json` asks one question about each file of a folder, of
the kinds that it answers about its own world, through the product's Transformers engine. No such file is committed.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from shutil import copy

import numpy as np

from cosmos_batch.catalogue.formats import VIDEO_EXTENSIONS
from training.evaluate import answer_file, load_engine
from training.questions import NOT_THIS_QUESTION, NOT_THIS_WORLD, ask_of_the_unknown

REFUSALS = (NOT_THIS_WORLD, NOT_THIS_QUESTION)
_SEED = 9_000_000
_CLIP_SECONDS = 4.0  # any duration above 0 draws questions about clips


@dataclass(frozen=True)
class Refusal:
    """The model's answer about one real file."""

    file: str
    question: str
    answer: str

    @property
    def refused(self) -> bool:
        """Return whether the answer says that this is not the model's world, and nothing else."""
        return self.answer.rsplit("</think>", 1)[-1].strip() in REFUSALS


def ask_about_files(checkpoint: Path, files: list[tuple[int, Path]], threads: int) -> list[Refusal]:
    """Ask one question about each of the numbered files, in this process."""
    engine = load_engine(checkpoint, threads)
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        for number, file in files:
            is_clip = file.suffix.lower() in VIDEO_EXTENSIONS
            question = ask_of_the_unknown(np.random.default_rng(_SEED + number), _CLIP_SECONDS if is_clip else 0.0)
            local = Path(copy(file, Path(scratch) / f"{number}{file.suffix.lower()}"))
            answer = asyncio.run(answer_file(engine, local, question.text))
            results.append(Refusal(file.name, question.text, answer))
            local.unlink()
    engine.close()
    return results


def main(arguments: list[str]) -> None:
    """Read the command line, ask, and print the share of files that the model refused."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("folder", type=Path, help="images and clips that do not show the demo model's world")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2, help="threads of each process")
    parser.add_argument("--out", type=Path, help="JSON file for the rates and every answer that is not a refusal")
    options = parser.parse_args(arguments)
    files = list(enumerate(sorted(options.folder.iterdir())))
    parts = [files[part :: options.processes] for part in range(options.processes)]
    with ProcessPoolExecutor(options.processes) as pool:
        runs = pool.map(ask_about_files, [options.checkpoint] * len(parts), parts, [options.threads] * len(parts))
        results = [result for run in runs for result in run]
    kinds = {True: "clips", False: "images"}
    counts = Counter((kinds[Path(one.file).suffix.lower() in VIDEO_EXTENSIONS], one.refused) for one in results)
    rates = {
        kind: {"files": counts[kind, True] + counts[kind, False], "refused": counts[kind, True]}
        for kind in kinds.values()
    }
    print(json.dumps(rates, indent=2))
    if options.out:
        answered = [vars(one) for one in results if not one.refused]
        options.out.write_text(json.dumps({"rates": rates, "answered": answered}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
