"""Write the demo model's card from the results of its measurements: `python -m training.card`.

The numbers come from `training/results/`, the text from `training/card.md`. A test compares the card in the
repository with what this writes.
"""

import json
import re
from pathlib import Path
from typing import Any

from cosmos_batch.demo import DEMO_REASON
from training.evaluate import sha256_of

RESULTS = Path(__file__).parent / "results"
TEMPLATE = Path(__file__).with_name("card.md")
GOALS = {
    "caption": None,
    "colour": 0.95,
    "shape": 0.95,
    "count": 0.95,
    "direction": 0.95,
    "order": 0.9,
    "when": 0.9,
    "where": 0.9,
    "plausible": 0.85,
    "next": None,
    "outside": None,
}
NAMES = {"colour": "color", "outside": "a question outside its world"}
SECONDS_GOAL = 5.0
Results = dict[str, Any]


def read(name: str) -> Results:
    """Read one file of results."""
    results: Results = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return results


def percent(share: float) -> str:
    """Return a share such as "94.7 %" or "100 %", rounded down so that nothing unmet looks met."""
    return f"{int(share * 1000 + 1e-6) / 10:g} %"


def table(header: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _verdict(right: float, goal: float | None) -> str:
    if goal is None:
        return ""
    return f"{percent(goal)}: {'met' if right >= goal else 'not met'}"


def accuracy_table(results: Results) -> str:
    """Return accuracy by kind of question with the goals."""
    by_kind = results["accuracy"]
    rows = [
        [
            NAMES.get(kind, kind),
            str(by_kind[kind]["asked"]),
            percent(by_kind[kind]["right"]),
            _verdict(by_kind[kind]["right"], goal),
        ]
        for kind, goal in GOALS.items()
    ]
    return table(["question", "asked", "right", "goal"], rows)


def sizes_table(results: Results) -> str:
    """Return accuracy by size: of all questions, and of those that ask where a shape is."""
    boxes = results["sizes, where"]
    rows = []
    for size, shares in results["sizes"].items():
        name = "drawn for the training" if size == "trained" else size.replace("x", " x ")
        box = boxes.get(size)
        where = "" if box is None else f"{round(box['asked'] * box['right'])} of {box['asked']}"
        rows.append([name, str(shares["asked"]), percent(shares["right"]), where])
    return table(["size", "asked", "right", "of these, where"], rows)


def wordings_table(results: Results) -> str:
    """Return accuracy by kind for wordings that no stage was trained on."""
    by_kind = results["new wordings"]
    rows = [
        [NAMES.get(kind, kind), str(by_kind[kind]["asked"]), percent(by_kind[kind]["right"])]
        for kind in GOALS
        if kind in by_kind
    ]
    return table(["question", "asked", "right"], rows)


def refusals_table(results: Results, accuracy: Results) -> str:
    """Return how many files of each source were refused, and how many clips of its own world."""
    rows = [[source, str(one["files"]), str(one["refused"])] for source, one in results["sources"].items()]
    files, refused = (sum(one[name] for one in results["sources"].values()) for name in ("files", "refused"))
    rows.append(["**all files that do not show its world**", str(files), f"{refused} ({percent(refused / files)})"])
    for wording in ("trained wordings", "new wordings"):
        clips, wrongly = (str(accuracy[name][wording]) for name in ("in its world", "refused wrongly"))
        rows.append([f"clips and images of its world, which it should not refuse, in {wording}", clips, wrongly])
    return table(["source", "asked", "refused"], rows)


def engines_table(results: Results) -> str:
    """Return seconds and memory of each engine beside the goal of five seconds for each answer."""
    rows = []
    for one in results["engines"]:
        met = "met" if one["largest seconds"] <= SECONDS_GOAL else "not met"
        rows.append(
            [
                one["engine"],
                f"{one['median seconds']:.2f} s",
                f"{one['largest seconds']:.2f} s",
                f"{SECONDS_GOAL:g} s: {met}",
                f"{one['right']} of {one['asked']}",
                f"{one['GiB of its processes']:.1f} GiB",
            ]
        )
    return table(["engine", "median", "largest", "goal for each answer", "right", "memory"], rows)


def card() -> str:
    """Return the card's text."""
    accuracy, refusals, agreement = read("accuracy"), read("refusals"), read("agreement")
    weights = sha256_of(DEMO_REASON / "model.safetensors")
    usual = sum(one["asked"] for one in accuracy["accuracy"].values())
    fields = {
        "weights": weights,
        "asked": f"{usual:,}",
        "clips": f"{accuracy['clips']['trained wordings']:,}",
        "accuracy": accuracy_table(accuracy),
        "sizes": sizes_table(accuracy),
        "wordings": wordings_table(accuracy),
        "new wordings asked": str(sum(one["asked"] for one in accuracy["new wordings"].values())),
        "refusals": refusals_table(refusals, accuracy),
        "engines": engines_table(agreement),
        "same": str(agreement["the same answer"]),
        "compared": str(agreement["asked"]),
        "cores": str(agreement["cores"]),
        "loads": ", ".join(f"{one[0]:.1f}" for one in agreement["load averages before, between and after"]),
    }
    return re.sub(r"\{([a-z ]+)\}", lambda match: fields[match[1]], TEMPLATE.read_text(encoding="utf-8"))


def main() -> None:
    """Write the card."""
    (DEMO_REASON / "README.md").write_text(card(), encoding="utf-8")


if __name__ == "__main__":
    main()
