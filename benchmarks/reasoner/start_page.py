"""Write the part of the reasoner's section about how long a worker starts, by phase."""

from typing import Any

from benchmarks.paragraphs import filled
from benchmarks.results import FOLDER, stored

OLDER_COMMIT = "0f4e7e0"
STARTS = {
    "6cdea055": FOLDER / "reasoner-start-2b.json",
    OLDER_COMMIT: FOLDER / f"reasoner-start-2b-{OLDER_COMMIT}.json",
}
"""Starts of two commits, beside each other on one host."""

INSPECTED_APART = "273d783a"
TINY_STARTS = [FOLDER / f"reasoner-start-tiny{ending}.json" for ending in ("", f"-{INSPECTED_APART}")]
"""Starts without a GPU: of a newer commit, and of one at which another process inspected the model's class."""

START_GOAL = 0.6  # time to the first answer with kept caches, relative to the older commit's


def text(
    found: dict[str, Any], newest: dict[str, Any], h100: dict[str, Any], h200: dict[str, Any], before: dict[str, Any]
) -> str:
    """Return starts on an H200, of two commits beside each other on an H100, and what is shorter since then.

    `newest` and `h100` are runs on H100 after and before models were inspected in the server's own process. `h200` is
    one on an H200 without CUDA's compiler, as in the image, and `before` one with it.
    """
    return f"""{_starts(found)}

These starts were all on one H200, with the files in the page cache.

{_two_starts()}

{_shorter_starts(newest, h100)}

{_since_then(found, before, h200)}"""


def _starts_by_commit() -> dict[str, dict[str, Any]]:
    return {commit: stored(path)["start"] for commit, path in STARTS.items()}


def ratio() -> float:
    """Return how long a start with kept caches takes, relative to that of the older commit."""
    now, before = (start["with"]["seconds"] for start in _starts_by_commit().values())
    return float(now / before)


def _two_starts() -> str:
    """Return a start to the first answer by phase, of two commits on one host."""
    newest = stored(next(iter(STARTS.values())))
    starts = {
        f"{commit}, {words}": steps[step]
        for commit, steps in _starts_by_commit().items()
        for step, words in (("without", "without kept caches"), ("with", "with kept caches"))
    }
    start = newest["start"]["with"]
    about = filled(
        f"From the start of a process to the first answer, in 16-bit, with the page cache emptied before, on "
        f"{newest['machine']}, {newest['day']}: two commits beside each other on one host, each with a GPU and 16 "
        f"cores. With kept caches the newer one takes {ratio():.2f} times as long. Both fork the engine's "
        "process, so that libraries are imported once, and both keep what is compiled. "
        f"Importing takes {start['phases']['engine: imports'] / start['seconds']:.0%} of the newer start.",
    )
    phases = {name: {"seconds": one["seconds"], "phases": _of_engine(one["phases"])} for name, one in starts.items()}
    return f"{about}\n\n{_table_of_starts('start, 2B', phases)}"


def _shorter_starts(newest: dict[str, Any], h100: dict[str, Any]) -> str:
    after_on_gpu, before_on_gpu = (one["bf16"]["loadWithoutCaches"] for one in (newest, h100))
    newer, older = (stored(path) for path in TINY_STARTS)
    after, before = (found["start"]["without"]["seconds"] for found in (newer, older))
    return filled(
        f"Since then, a first start is shorter. Until commit {INSPECTED_APART}, vLLM started another process that "
        "imported everything once more, only to inspect the model's class, where no kept caches had what it found. Now "
        f"the process that has imported the class does that. On {newer['machine']}, a tiny model's first answer "
        f"without kept caches came after {after:.1f} s in place of {before:.1f} s (one start of each, {newer['day']}). "
        f"In two runs on two hosts with an H100, imports took {before_on_gpu['phases']['imports']:.0f} s before and "
        f"{after_on_gpu['phases']['imports']:.0f} s after; no run had both, so this does not show what it gains there. "
        f"Both loads took {after_on_gpu['seconds']:.0f} to {before_on_gpu['seconds']:.0f} s: compiling took "
        f"{before_on_gpu['phases']['compile']:.0f} s before and {after_on_gpu['phases']['compile']:.0f} s after. "
        "Cosmos3-Edge and the image for CUDA 12.8 do as before.",
    )


def _since_then(found: dict[str, Any], before: dict[str, Any], h200: dict[str, Any]) -> str:
    """Say how a load without CUDA's compiler compares, and what vLLM keeps since commit 712256b7."""
    loads = [run["bf16"]["loadWithoutCaches"] for run in (found, before, h200)]
    first, second, hidden = (f"{load['seconds']:.0f} s" for load in loads)
    warm_ups = sorted(load["phases"]["warmup"] for load in loads)
    return filled(
        "In the starts above on GPUs vLLM found CUDA's compiler, which it does not find in our images. By its code "
        f"it then also tunes FlashInfer's kernels. Loads in 16-bit without kept caches took {first} and {second} with "
        f"it, and {hidden} without it, on three hosts with H200. Their warm-ups took {warm_ups[0]:.0f} to "
        f"{warm_ups[-1]:.0f} s, so no effect of it can be seen. Since commit 712256b7 vLLM keeps how much memory was "
        "left for keys and values with what it compiles. Where as much memory is free in a later start, it does not "
        "measure that again, nor capture CUDA graphs to learn how much they take. What that saves was not measured.",
    )


def _of_engine(phases: dict[str, float]) -> dict[str, float]:
    """Return the phases of a process that are its engine's, by the names that the engine gives them."""
    prefix = "engine: "
    return {name.removeprefix(prefix): seconds for name, seconds in phases.items() if name.startswith(prefix)}


def _starts(found: dict[str, Any]) -> str:
    starts = {
        f"{words}, {with_caches}": found[name][step]
        for name, words in (("bf16", "16-bit"), ("fp8", "FP8"))
        for step, with_caches in (("loadWithoutCaches", "without kept caches"), ("load", "with kept caches"))
        if step in found[name]
    }
    return _table_of_starts("start of a worker, 2B", starts)


def _table_of_starts(title: str, starts: dict[str, dict[str, Any]]) -> str:
    """Return the seconds of each phase of some starts, all of which have the same phases."""
    rows = [f"| {title} | {' | '.join(starts)} |", f"|---|{'---|' * len(starts)}"]
    for phase in next(iter(starts.values()))["phases"]:
        rows.append(f"| {phase} | " + " | ".join(f"{one['phases'][phase]:.1f} s" for one in starts.values()) + " |")
    rows.append("| all | " + " | ".join(f"{one['seconds']:.1f} s" for one in starts.values()) + " |")
    return "\n".join(rows)
