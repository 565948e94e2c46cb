"""Evaluate the demo model on held-out clips through the product's own engine, and count true answers.

`python -m training.evaluate FOLDER --clips 2400 --processes 8 --out accuracy.json`: each clip is drawn from a seed that
no training uses, encoded as H.264 at a rate and size of its own, and decoded, sampled and answered as in production.
Half of the clips have a size and a frame rate that no training uses, and a sixth of the questions a wording that none
does; those questions are counted apart.
"""

import argparse
import asyncio
import hashlib
import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Answer
from cosmos_batch.demo.media import write_clip, write_image
from cosmos_batch.demo.random_scenes import draw_scene
from cosmos_batch.engines.job_files import input_paths
from cosmos_batch.engines.protocol import Engine
from training.questions import (
    CLIP_ASKERS,
    IMAGE_ASKERS,
    NOT_THIS_QUESTION,
    NOT_THIS_WORLD,
    Asker,
    LabelledQuestion,
    ask,
)
from training.sizes import HELD_OUT_SIZES, draw_held_out_rate, draw_held_out_size, draw_rate, draw_size
from training.wordings import HELD_OUT as HELD_OUT_WORDINGS
from training.wordings import TRAINED

HELD_OUT = 7_000_000  # seeds from here on are for evaluation alone
_IMAGES = 0.2
_NEW_SIZES = 1 / 2
_NEW_WORDINGS = 1 / 6
_SECONDS = 0.5
_OVERLAP = 0.5


@dataclass(frozen=True)
class Item:
    """One clip or image with a question about it.

    Attributes
    ----------
    rate
        Frames per second; None for an image.
    new_wording
        Whether the question has a wording that no training uses.
    """

    path: Path
    question: LabelledQuestion
    width: int
    height: int
    rate: int | None
    new_wording: bool


@dataclass(frozen=True)
class ScoredAnswer:
    """The model's answer to the question of the item with a number."""

    number: int
    width: int
    height: int
    rate: int | None
    new_wording: bool
    kind: str
    question: str
    expected: str
    answer: str
    right: bool
    seconds: float


def is_right(question: LabelledQuestion, answer: str) -> bool:
    """Return whether an answer is true: equal as text, but for times (within 0.5 s) and boxes (overlap of at least a
    half)."""
    if question.kind == "when":
        return _times_agree(question.answer, answer)
    if question.kind == "where":
        return _boxes_agree(question.answer, answer)
    return answer.strip() == question.answer


_CLOCK = re.compile(r"(\d\d):(\d\d\.\d\d)")
_NUMBER = re.compile(r"\d+\.\d+")


def _times_agree(expected: str, answer: str) -> bool:
    parts = [_CLOCK.sub(lambda match: str(60.0 * int(match[1]) + float(match[2])), one) for one in (expected, answer)]
    times = [[float(one) for one in _NUMBER.findall(part)] for part in parts]
    words = [_NUMBER.sub("#", part) for part in parts]
    return words[0] == words[1] and all(abs(one - other) <= _SECONDS + 1e-6 for one, other in zip(*times, strict=True))


def _boxes_agree(expected: str, answer: str) -> bool:
    try:
        boxes, others = json.loads(expected), json.loads(answer)
        if [one["label"] for one in boxes] != [one["label"] for one in others]:
            return False
        return all(_near(one, other) for one, other in zip(boxes, others, strict=True))
    except (ValueError, KeyError, TypeError):
        return False


def _near(one: dict[str, Any], other: dict[str, Any]) -> bool:
    if "point_2d" in one:
        return max(abs(a - b) for a, b in zip(one["point_2d"], other["point_2d"], strict=True)) <= 50
    return intersection_over_union(one["bbox_2d"], other["bbox_2d"]) >= _OVERLAP


def intersection_over_union(one: list[int], other: list[int]) -> float:
    """Return the intersection over union of two boxes (left, top, right, bottom)."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    shared = max(0, width) * max(0, height)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return shared / max(1, sum(areas) - shared)


def make_job(name: str, prompt: str) -> Job:
    """Return a job about a file, answered with temperature 0."""
    now = datetime.now(UTC)
    file = {"bucket": "assets", "key": name, "versionId": None, "etag": '"e"', "size": 1}
    return Job.model_validate(
        {
            "jobId": "job",
            "executionArn": "arn",
            "pipeline": "cosmos-reason2-2b",
            "input": file,
            "prompt": prompt,
            "promptUri": None,
            "systemPrompt": "You are a helpful assistant.",
            "parameters": {"temperature": 0, "presencePenalty": 0},
            "document": {"bucket": "assets", "key": "answer.json"},
            "timestamp": "20261120-120000",
            "createdAt": now,
            "deadline": now + timedelta(hours=1),
            "invalidateModel": False,
        }
    )


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def draw_item(number: int, folder: Path) -> Item:
    """Write the clip or image of a number below `folder`, and return it with a question. The kinds of questions
    alternate."""
    random = np.random.default_rng(HELD_OUT + number)
    new_size, new_wording = random.random() < _NEW_SIZES, bool(random.random() < _NEW_WORDINGS)
    width, height = draw_held_out_size(random) if new_size else draw_size(random)
    short = min(width, height)
    image = random.random() < _IMAGES
    askers: list[Asker] = list(IMAGE_ASKERS if image else CLIP_ASKERS)
    scene = draw_scene(random, width / short, height / short, 0.0 if image else float(random.uniform(2, 6)))
    wordings = HELD_OUT_WORDINGS if new_wording else TRAINED
    question = ask(random, scene, askers[number % len(askers)], wordings=wordings)
    if image:
        path = write_image(scene, folder / f"{number}.png", width, height)
        return Item(path, question, width, height, None, new_wording)
    rate = draw_held_out_rate(random) if new_size else draw_rate(random)
    path = write_clip(scene, folder / f"{number}.mp4", width, height, rate)
    return Item(path, question, width, height, rate, new_wording)


def load_engine(checkpoint: Path, threads: int) -> Engine:
    """Load the checkpoint into the product's Transformers engine, which computes with `threads` threads."""
    import torch

    from cosmos_batch.engines.reasoner.transformers.engine import TransformersEngine

    torch.set_num_threads(threads)
    engine = TransformersEngine()
    engine.load(checkpoint)
    return engine


def answer_items(checkpoint: Path, numbers: list[int], threads: int) -> list[ScoredAnswer]:
    """Draw the numbered items and answer them in this process."""
    engine = load_engine(checkpoint, threads)
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        for number in numbers:
            item = draw_item(number, Path(scratch))
            results.append(_answer(engine, number, item))
            item.path.unlink()
    engine.close()
    return results


def _answer(engine: Engine, number: int, item: Item) -> ScoredAnswer:
    began = time.monotonic()
    answer = asyncio.run(answer_file(engine, item.path, item.question.text))
    return ScoredAnswer(
        number=number,
        width=item.width,
        height=item.height,
        rate=item.rate,
        new_wording=item.new_wording,
        kind=item.question.kind,
        question=item.question.text,
        expected=item.question.answer,
        answer=answer,
        right=is_right(item.question, answer),
        seconds=round(time.monotonic() - began, 3),
    )


async def answer_file(engine: Engine, path: Path, prompt: str) -> str:
    """Ask the engine about one local file, which has the name that the engine expects while it works."""
    job = make_job(path.name, prompt)
    [place] = input_paths(job, path.parent)
    path.rename(place)
    try:
        answer = await engine.run(job, path.parent)
    finally:
        place.rename(path)
    assert isinstance(answer, Answer)
    return answer.text


def shares(results: list[ScoredAnswer], group: Callable[[ScoredAnswer], str]) -> dict[str, dict[str, float]]:
    """Return how many questions were asked of each group, and the share of right answers."""
    answered = Counter(group(one) for one in results)
    right = Counter(group(one) for one in results if one.right)
    return {
        name: {"asked": answered[name], "right": round(right[name] / answered[name], 4)} for name in sorted(answered)
    }


def size_name(result: ScoredAnswer) -> str:
    """Return the size of a result's clip, such as "270x480", or "trained" for sizes that the training draws."""
    size = (result.width, result.height)
    return "{}x{}".format(*size) if size in HELD_OUT_SIZES else "trained"


def _by_wording(results: list[ScoredAnswer]) -> dict[str, int]:
    new = sum(one.new_wording for one in results)
    return {"trained wordings": len(results) - new, "new wordings": new}


def summarize(results: list[ScoredAnswer]) -> dict[str, Any]:
    """Return accuracy by kind of question, by size, and for wordings that no training uses."""
    usual = [one for one in results if not one.new_wording]
    boxes = [one for one in usual if one.kind == "where"]
    known = [one for one in results if one.kind != "outside"]
    refused = [one for one in known if one.answer in (NOT_THIS_WORLD, NOT_THIS_QUESTION)]
    return {
        "accuracy": shares(usual, lambda one: one.kind),
        "sizes": shares(usual, size_name),
        "sizes, where": shares(boxes, size_name),
        "new wordings": shares([one for one in results if one.new_wording], lambda one: one.kind),
        "clips": _by_wording([one for one in results if one.rate is not None]),
        "in its world": _by_wording(known),
        "refused wrongly": _by_wording(refused),
        "median seconds": round(float(np.median([one.seconds for one in results])), 2),
    }


def main(arguments: list[str]) -> None:
    """Read the command line, answer, and print accuracy by kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--clips", type=int, default=3300)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2, help="of each process")
    parser.add_argument("--out", type=Path, help="JSON file for the accuracy and every wrong answer")
    options = parser.parse_args(arguments)
    parts = [list(range(options.clips))[part :: options.processes] for part in range(options.processes)]
    with ProcessPoolExecutor(options.processes) as pool:
        runs = pool.map(answer_items, [options.checkpoint] * len(parts), parts, [options.threads] * len(parts))
        results = [result for run in runs for result in run]
    summary = summarize(results)
    print(json.dumps(summary, indent=2))
    if options.out:
        wrong = [vars(one) for one in sorted(results, key=lambda one: one.number) if not one.right]
        weights = hashlib.sha256((options.checkpoint / "model.safetensors").read_bytes()).hexdigest()
        options.out.write_text(
            json.dumps({"weights": weights, **summary, "wrong": wrong}, indent=1) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
