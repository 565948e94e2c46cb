"""Count how often the demo model refuses real images and clips, which it does not know.

`python -m training.refusals CHECKPOINT FOLDER --out training/results/refusals.json` asks one question about each file
below a folder, of the kinds that it answers about its own world, through the product's Transformers engine. The folders
within are the sources. No such file is committed; the results name each by its path and SHA-256.
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
from typing import Any

import numpy as np

from cosmos_batch.catalogue.formats import EXTENSIONS, extension, medium_of
from training.evaluate import answer_file, load_engine, sha256_of
from training.questions import NOT_THIS_QUESTION, NOT_THIS_WORLD, ask_of_the_unknown

REFUSALS = (NOT_THIS_WORLD, NOT_THIS_QUESTION)
_SEED = 9_000_000
_CLIP_SECONDS = 4.0  # any duration above 0 draws questions about clips


@dataclass(frozen=True)
class Refusal:
    """The model's answer about one real file, whose name is its path below the folder: SOURCE/NAME."""

    file: str
    sha256: str
    question: str
    answer: str

    @property
    def refused(self) -> bool:
        """Return whether the answer says that this is not the model's world, and nothing else."""
        return self.answer.rsplit("</think>", 1)[-1].strip() in REFUSALS


def ask_about_files(checkpoint: Path, folder: Path, files: list[tuple[int, Path]], threads: int) -> list[Refusal]:
    """Ask one question about each of the numbered files below a folder, in this process."""
    engine = load_engine(checkpoint, threads)
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        for number, file in files:
            seconds = _CLIP_SECONDS if medium_of(file.name) == "video" else 0.0
            question = ask_of_the_unknown(np.random.default_rng(_SEED + number), seconds).text
            local = Path(copy(file, Path(scratch) / f"{number}{extension(file.name)}"))
            answer = asyncio.run(answer_file(engine, local, question))
            results.append(Refusal(str(file.relative_to(folder)), sha256_of(file), question, answer))
            local.unlink()
    engine.close()
    return results


def rates(results: list[Refusal]) -> dict[str, dict[str, int]]:
    """Return for each source how many files were asked about and how many of them refused."""
    files = Counter(one.file.split("/")[0] for one in results)
    refused = Counter(one.file.split("/")[0] for one in results if one.refused)
    return {source: {"files": files[source], "refused": refused[source]} for source in sorted(files)}


def report(checkpoint: Path, results: list[Refusal]) -> dict[str, Any]:
    """Return the rates and every answer, with the checkpoint that gave them."""
    return {
        "weights": sha256_of(checkpoint / "model.safetensors"),
        "sources": rates(results),
        "answers": [vars(one) for one in sorted(results, key=lambda one: one.file)],
    }


def main(arguments: list[str]) -> None:
    """Read the command line, ask, and print the share of files that the model refused."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("folder", type=Path, help="images and clips that do not show the demo model's world")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2, help="threads of each process")
    parser.add_argument("--out", type=Path, help="JSON file for the rates and every answer")
    options = parser.parse_args(arguments)
    files = list(enumerate(sorted(one for one in options.folder.rglob("*") if extension(one.name) in EXTENSIONS)))
    parts = [files[part :: options.processes] for part in range(options.processes)]
    common = (options.checkpoint, options.folder)
    with ProcessPoolExecutor(options.processes) as pool:
        runs = [pool.submit(ask_about_files, *common, part, options.threads) for part in parts]
        results = [result for run in runs for result in run.result()]
    summary = report(options.checkpoint, results)
    print(json.dumps(summary["sources"], indent=2))
    if options.out:
        options.out.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
