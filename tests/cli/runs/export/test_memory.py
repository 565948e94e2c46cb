"""An export of tables takes the same memory for any number of answers."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.runs.export.formats import FORMATS
from cosmos_batch.cli.runs.stored_run import StoredRun
from cosmos_batch.contract.runs import ResultLine
from tests.support.run_objects import answered

ANSWER = "A car turns left at the crossing. " * 30


def lines(count: int) -> Iterator[ResultLine]:
    return (answered(f"clips/{number:06}.mp4", ANSWER) for number in range(count))


def peak(run: StoredRun, name: str, count: int, folder: Path) -> int:
    tracemalloc.start()
    try:
        FORMATS[name].write(run, lines(count), folder / f"{name}-{count}")
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["csv", "jsonl", "openai", "coco"])
def test_memory_does_not_grow_with_the_answers(name: str, deployment: Deployment, tmp_path: Path) -> None:
    run = StoredRun(deployment.clients("s3"), "state", "r")
    peak(run, name, 10, tmp_path)  # what is imported at the first call is not counted
    assert peak(run, name, 2000, tmp_path) < peak(run, name, 500, tmp_path) + 500_000, "1,500 answers have 1.5 MB"
