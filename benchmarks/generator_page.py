"""The generator's part of `docs/benchmarks.md`."""

import json
from typing import Any

from benchmarks.results import FOLDER

RESULT = FOLDER / "generator-nano.json"
LEAST = {"320x192": 1.5, "832x480": 1.25}
"""How many times faster than the baseline our engine must be."""

# NVIDIA's own seconds for vLLM-Omni on one H100 80GB HBM3, of the same job (inference_benchmarks.md, June 2026).
GOALS = {"320x192": 6.97, "832x480": 58.2}
_MEASURES = {
    "baseline": "Diffusers as it comes",
    "frames": "frames leave the GPU as bytes, not as pictures of PIL",
    "readOnce": "each prompt read once",
    "compiled": "layers compiled",
    "attention": "cuDNN's attention",
    "channelsLast": "VAE with channels last (not on by default)",
}
DEFAULT = "attention"
"""The last measure that is on by default, so the engine as it is."""

_COMMAND = """```
python -m benchmarks.generator --shape nano
```"""


def text() -> str:
    """The section; it says so where nothing was measured."""
    if not RESULT.exists():
        return f"""## The generator on a GPU

Not measured yet: no figure of this project's is known for Diffusers with what
[decision 041](decisions/041-diffusers-made-fast.md) adds to it. On a machine with a GPU:

{_COMMAND}
"""
    found = json.loads(RESULT.read_text(encoding="utf-8"))
    load = found["workload"]
    return f"""## The generator on a GPU

Measured {found["day"]} on {found["machine"]}, torch {found["torch"]}, Diffusers {found["diffusers"]}: random weights in
Cosmos3-Nano's true shape, text to video, {load["frames"]} frames, {load["steps"]} steps, guidance {load["guidance"]:g},
prompts of {" and ".join(f"{one:,}" for one in load["promptTokens"])} tokens; each measure is added to those above it.

{"".join(_size(size, found["sizes"][size]) for size in LEAST if size in found.get("sizes", {}))}\
{_start(found)}{_memory(found)}{_COMMAND}
"""


def _size(size: str, rows: dict[str, Any]) -> str:
    baseline = rows["baseline"]["seconds"]
    lines = [
        f"### {size}",
        "",
        "| | seconds | times the baseline | transformer, host | VAE | encoding | difference, largest and mean |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, said in _MEASURES.items():
        if name not in rows:
            continue
        one = rows[name]
        parts = one["parts"]
        lines.append(
            f"| {said} | {one['seconds']:.2f} | {baseline / one['seconds']:.2f} | {_seconds(parts['transformer'])}, "
            f"{parts['transformer']['host']:.2f} | {_seconds(parts['vae'])} | {one['encoding']:.2f} | "
            f"{one['largest']}, {one['mean']:.2f} |"
        )
    return "\n".join([*lines, "", _limits(size, rows), "", ""])


def _limits(size: str, rows: dict[str, Any]) -> str:
    if DEFAULT not in rows:
        return "Not all measures were taken."
    ours, baseline = rows[DEFAULT]["seconds"], rows["baseline"]["seconds"]
    fast, goal = baseline / ours, GOALS[size]
    return (
        f"Our engine: {fast:.2f} times the baseline, limit: at least {LEAST[size]}: "
        f"{'met' if fast >= LEAST[size] else '**not met**'}. {ours:.2f} s, goal: under {goal} s (NVIDIA's vLLM-Omni): "
        f"{'met' if ours < goal else '**not met**'}. Differences are of pixel values, 0 to 255, from the baseline's."
    )


def _seconds(part: dict[str, float]) -> str:
    """Of the GPU where there is one."""
    return f"{part.get('gpu', part['host']):.2f}"


def _start(found: dict[str, Any]) -> str:
    if "start" not in found:
        return ""
    start = found["start"]
    sizes = list(start["with"]["resident"])
    rows = [f"| to the first step | {' | '.join(sizes)} |", f"|---|{'---|' * len(sizes)}"]
    for name, said in (
        ("without", "new process, nothing compiled before"),
        ("with", "new process, compiled code kept"),
    ):
        one = start[name]
        before = one["boot"] + one["loaded"]
        rows.append(f"| {said} | {' | '.join(f'{before + seconds:.1f} s' for seconds in one['firstJob'].values())} |")
    resident = start["with"]["resident"].values()
    rows.append(f"| resident | {' | '.join(f'{seconds:.2f} s' for seconds in resident)} |")
    said = "was emptied before each" if start["with"]["filesForgotten"] else "could not be emptied"
    return "### From a job to its first step\n\n" + "\n".join(rows) + f"\n\nThe page cache {said}.\n\n"


def _memory(found: dict[str, Any]) -> str:
    if "memory" not in found:
        return ""
    rows = [f"| {size} | {one['peakBytes'] / 2**30:.1f} GiB |" for size, one in found["memory"].items()]
    return "### Peak memory\n\n| | peak |\n|---|---|\n" + "\n".join(rows) + "\n\n"
