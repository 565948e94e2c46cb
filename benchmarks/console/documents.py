"""Documents of a made-up collection, and searches that find few, many or none of them."""

import random
from pathlib import Path

from cosmos_batch.demo.media import sample_clip
from tests.support.console_documents import write_answer, write_failure

CLIPS = 20
FAILED_EVERY = 100
WORDS = [
    "robot",
    "arm",
    "lifts",
    "blue",
    "red",
    "circle",
    "square",
    "falls",
    "conveyor",
    "forklift",
    "person",
    "walks",
    "crosses",
    "street",
    "car",
    "truck",
    "turns",
    "left",
    "right",
    "stops",
    "bridge",
    "rain",
    "night",
    "warehouse",
    "shelf",
    "box",
    "pallet",
    "gripper",
    "opens",
    "closes",
    "camera",
    "moves",
    "slowly",
    "fast",
    "behind",
]
LABELS = ("circle", "square", "person", "forklift", "car")
SEARCHES: dict[str, dict[str, str]] = {
    "a word that all have": {"search": "clip"},
    "a word that three of four have": {"search": "robot"},
    "two words that nearly all have": {"search": "happens when"},
    "three words": {"search": "robot forklift bridge"},
    "a part of a word": {"search": "obo"},
    "a word that one has": {"search": "sentence-77"},
    "a word that none has": {"search": "elephant"},
    "two letters that many have": {"search": "ro"},
    "two letters that none has": {"search": "zz"},
    "one letter": {"search": "a"},
    "a frequent word among failures": {"search": "robot", "status": "failed"},
    "a frequent word, no failures": {"search": "robot", "status": "succeeded"},
    "a frequent word that failures lack": {"search": "happens", "status": "failed"},
    "a frequent word, by name": {"search": "robot", "sort": "name"},
    "a frequent word, the slowest first": {"search": "robot", "sort": "slowest"},
    "a frequent word, the greatest score first": {"search": "robot", "sort": "score"},
    "a frequent word and a label": {"search": "robot", "label": "circle"},
    "a frequent word and a model": {"search": "robot", "model": "nvidia/Cosmos-Reason2-2B"},
}


def write_documents(folder: Path, documents: int) -> None:
    """Write documents of a hundred random words about a few clips; every hundredth is the error of a failed job."""
    for number in range(CLIPS):
        sample_clip(folder / f"clip {number:02}.mp4")
    chosen = random.Random(18)
    for number in range(documents):
        name = f"clip {number % CLIPS:02}.mp4"
        said = f"sentence-{number} {' '.join(chosen.choices(WORDS, k=60))}"
        timestamp = f"2026{number:010}"
        path = folder / f"{number // 1000:03}" / f"{number:06}.json"
        path.parent.mkdir(exist_ok=True)
        if number % FAILED_EVERY == 0:
            write_failure(path, "InvalidInput", f"It is damaged: {said}", name, timestamp)
            continue
        data = [{"label": LABELS[number % len(LABELS)], "bbox_2d": [100, 100, 200, 200], "score": number % 97 / 97}]
        prompt = "What happens in this clip, and when?"
        timings = {"generate": number % 89 / 10}
        write_answer(
            path, inputFile=name, result=said, data=data, timestamp=timestamp, userPrompt=prompt, timings=timings
        )
