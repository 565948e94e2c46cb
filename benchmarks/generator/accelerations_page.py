"""Write the section of `docs/benchmarks.md` about Diffusers on a GPU from its results."""

import json
from typing import Any

from benchmarks import kernels_page
from benchmarks.generator import modes_page
from benchmarks.paragraphs import filled
from benchmarks.results import FOLDER

RESULT = FOLDER / "generator-nano.json"
AS_IT_SHIPS = FOLDER / "generator-diffusers-nano.json"
OURS = FOLDER / "generator-ours-nano.json"  # the engine as it is, exact and with all lossy modes
WHOLE = FOLDER / "generator-whole-nano.json"  # whole jobs, whose files are encoded while the GPU decodes
EACH_MODE = FOLDER / "generator-lossy-nano.json"  # of a run before the engine was asynchronous
BEFORE = FOLDER / "generator-lossy-nano-0acf09b4.json"  # of a run before the changes that its profile led to
LEAST = {"320x192": 1.5, "832x480": 1.25}
"""How many times faster than the baseline our engine must be."""

# NVIDIA's own seconds for vLLM-Omni on one H100 80GB HBM3, of 189 frames and 35 steps (inference_benchmarks.md, June
# 2026); the prompt and what is timed of a job it does not say.
GOALS = {"320x192": 6.97, "832x480": 58.2}
_MEASURES = {
    "baseline": "unmodified Diffusers",
    "frames": "frames are copied from the GPU as bytes, not as PIL images",
    "readOnce": "each prompt encoded once",
    "compiled": "layers compiled",
    "channelsLast": "VAE with channels last",
    "givenOnly": "only given frames are encoded",
    "flashAttention": "FlashAttention 3 instead of cuDNN's",
    "fusedDecoder": "VAE's decoder with fewer operations",
    "sharedTimestep": "timestep embedded once for a pass",
    "asynchronous": "the host waits for no result of the GPU",
}
DEFAULT = "asynchronous"
"""The last measure, so the engine as it is."""
_LOSSY = {
    "fp8": "`fp8`",
    "stepCache": "`stepCache`",
    "both": "`fp8` and `stepCache`",
    "fp8Attention": "`fp8Attention`",
    "fp8Everywhere": "`fp8` and `fp8Attention`",
    "all": "`fp8`, `fp8Attention` and `stepCache`",
}
_DIFFUSERS = {"320x192": 9.0, "832x480": 68.0}
"""The same table's, for Diffusers."""

_JOBS = "t2v:320x192,i2v:320x192,sound:320x192,t2i:832x480,t2v:832x480"
_AS_IT_SHIPS = (
    "python -m benchmarks.generator.modes --engine diffusers --shape nano --modes plain "
    f"--jobs {_JOBS} --first t2v:320x192 --work FOLDER --into FILE"
)
_OURS = (
    "python -m benchmarks.generator.accelerations --shape nano --steps measures --kernels "
    "--only asynchronous:320x192:832x480,all:320x192:832x480:1280x720 --work FOLDER --into FILE"
)
_EACH_MODE = (
    "python -m benchmarks.generator.accelerations --shape nano --steps measures --sizes 320x192,832x480 "
    "--only asynchronous,fp8Attention:320x192,fp8:320x192,both,fp8Everywhere:320x192,all --work FOLDER --into FILE"
)
_COMMAND = "python -m benchmarks.generator.accelerations --shape nano"


def text() -> str:
    """Return the section; without results of each optimization it says so."""
    if not RESULT.exists():
        return f"""## Diffusers on a GPU

{_as_it_ships()}
{_ours()}

{_each_mode()}

### Where the time goes in Diffusers

{_kernels()}

What the older optimizations gain was not measured with the PyTorch of the image;
[decision 041](decisions/041-diffusers-made-fast.md) tells it for an earlier one. To measure on a machine with a GPU:

```
{_AS_IT_SHIPS}
{_OURS}
{_EACH_MODE}
{_COMMAND}
```
"""
    results = json.loads(RESULT.read_text(encoding="utf-8"))
    return f"""## Diffusers on a GPU

{_about(results)}
The prompts have {" and ".join(f"{one:,}" for one in results["workload"]["promptTokens"])} tokens. In the tables, each \
row adds an optimization to those of the rows above.

{"".join(_size(size, results) for size in LEAST if size in results.get("sizes", {}))}\
{_lossy(results.get("sizes", {}))}{_start(results)}{_memory(results)}```
{_COMMAND}
```

Where a size has fewer rows, the others were left out of its call, with `--sizes` and `--only`.
"""


def _as_it_ships() -> str:
    """Return the jobs of vLLM-Omni's table, made by Diffusers."""
    results, omni = (json.loads(path.read_text(encoding="utf-8")) for path in (AS_IT_SHIPS, modes_page.RESULT))
    own, other = results["modes"]["plain"], omni["modes"]["plain"]
    sizes = [size for size in own["kinds"]["t2v"] if size in other["kinds"]["t2v"]]
    pairs = " and ".join(
        f"{own['kinds']['t2v'][size]['seconds']['generate']:.2f} s for a video of {size} (vLLM-Omni "
        f"{other['kinds']['t2v'][size]['seconds']['generate']:.2f} s)"
        for size in sizes
    )
    about = filled(
        f"Measured {results['day']} on {results['machine']}, {results['engine']}, torch {results['torch']}, as the "
        "lock of the image has them, with the jobs of [vLLM-Omni's table](#the-generator-on-a-gpu), in another session "
        f"on an H200: {pairs}. Only the video of {sizes[0]} was made once before. The VAE decoded as in Diffusers.",
    )
    return f"""{about}

{modes_page.HEAD}
{modes_page.rows(results)}
"""


def _ours() -> str:
    """Return our engine as it ships and with all lossy modes, in one run, and the goals."""
    found, whole = (json.loads(path.read_text(encoding="utf-8")) for path in (OURS, WHOLE))
    rows = [
        f"| {size}, {words} | {_generated(rows[name])} |"
        for size, rows in found["sizes"].items()
        for name, words in ((DEFAULT, "as it ships"), ("all", _LOSSY["all"]))
        if name in rows
    ]
    about = filled(
        f"Measured {found['day']} on {found['machine']}, with the same versions, without the encoding, all in one run. "
        "The host's other GPU ran another benchmark on cores of its own. The GPU's seconds are those of the 70 passes "
        f"of the transformer, of which `stepCache` computes {COMPUTED}, and of the VAE. The difference is the mean of "
        "how far the pixels' values, 0 to 255, are from those of the exact engine. The weights are random, so it tells "
        "nothing of how a real video looks:",
    )
    small, lossy = whole["sizes"]["320x192"][DEFAULT], [sizes["all"]["whole"] for sizes in whole["sizes"].values()]
    after = filled(
        f"The whole jobs in the next table are of another run, measured {whole['day']} on {whole['machine']}, while "
        "other benchmarks ran on the host's three other GPUs. A thread of its own encodes the file while the GPU "
        "decodes. A drawn clip was encoded in place of the generated one, because random weights make noise. A file of "
        f"320x192 was done {small['whole'] - small['seconds']:.2f} s after the GPU was. With all three modes, whole "
        f"jobs took {lossy[0]:.2f}, {lossy[1]:.2f} and {lossy[2]:.2f} s.",
    )
    goals = ["| goal, on one H100 | measured | |", "|---|---|---|", *_goals(found, whole)]
    head = "| | generation | transformer, VAE | peak | difference |\n|---|---|---|---|---|"
    return "\n".join([about, "", head, *rows, "", after, "", *goals])


def _generated(one: dict[str, Any]) -> str:
    difference = f"{one['mean']:.1f}" if "mean" in one else ""
    return f"{one['seconds']:.2f} s | {_on_gpu(one)} | {one['peakBytes'] / 2**30:.1f} GiB | {difference}"


def _on_gpu(one: dict[str, Any]) -> str:
    """Return the GPU's seconds of the transformer and of the VAE."""
    return f"{one['parts']['transformer']['gpu']:.2f} s, {_vae(one):.2f} s"


def _vae(one: dict[str, Any]) -> float:
    """Return the GPU's seconds of the VAE. The run of `OURS` recorded them by another name."""
    parts = one["parts"]
    return float(parts.get("vae", parts.get("queuedDecoding"))["gpu"])


def _goals(ours: dict[str, Any], whole: dict[str, Any]) -> list[str]:
    """Return whether whole exact jobs, and the generation with all lossy modes together, reach their goals."""
    exact = [
        modes_page.goal_row(
            f"{size}, exact, generation and encoding: at most {goal:g} s", whole["sizes"][size][DEFAULT]["whole"], goal
        )
        for size, goal in modes_page.EXACT.items()
    ]
    lossy = [
        modes_page.goal_row(
            f"{size}, {_LOSSY['all']}, generation alone: at most {goal:g} s",
            ours["sizes"][size]["all"]["seconds"],
            goal,
        )
        for size, goal in modes_page.LOSSY.items()
    ]
    return [*exact, *lossy]


def _each_mode() -> str:
    """Return what each lossy mode gains and changes, in one run of an earlier day."""
    found = json.loads(EACH_MODE.read_text(encoding="utf-8"))
    small, large = (found["sizes"][size] for size in LEAST)
    names = {**dict.fromkeys(("sharedTimestep", DEFAULT), "no mode"), **_LOSSY}
    rows = [
        f"| {words} | {_measured(small.get(name))} | {_measured(large.get(name))} |"
        for name, words in names.items()
        if name in small
    ]
    about = filled(
        f"Modes alone and together were measured {found['day']} on {found['machine']}, with the same versions, all in "
        "one run beside another benchmark. The host still waited for the GPU in each step, as at commit 714a7739:",
    )
    before = json.loads(BEFORE.read_text(encoding="utf-8"))["sizes"]
    earlier = [[before[size][name]["seconds"] for size in LEAST] for name in ("fusedDecoder", "all")]
    after = filled(
        "`fp8Attention` changes the time of a video of 320x192 by two percent at most, in either direction. At 832x480 "
        "it saves a tenth, and the difference is three times as large. Before the changes that a profile led to, at "
        f"commit 0acf09b4, a run on such a machine took {earlier[0][0]:.2f} and {earlier[0][1]:.2f} s, and "
        f"{earlier[1][0]:.2f} and {earlier[1][1]:.2f} s with all three modes.",
    )
    columns = "transformer, VAE | difference"
    head = f"| | 320x192 | {columns} | 832x480 | {columns} |\n|---|---|---|---|---|---|---|"
    return "\n".join([about, "", head, *rows, "", after])


def _measured(one: dict[str, Any] | None) -> str:
    if one is None:
        return " | | "
    return f"{one['seconds']:.2f} s | {_on_gpu(one)} | {one['mean']:.1f}"


_FP8_PRODUCT = "nvjet_sm90_qq"
"""The name of each kernel of cuBLAS that multiplies two matrices in FP8 has this part."""

COMPUTED = 42
"""Passes of 70 that are computed with `stepCache`."""


def _kernels() -> str:
    """Return the GPU's seconds by kind of kernel, of two steps with all that is before and after them."""
    found = json.loads(OURS.read_text(encoding="utf-8"))
    profiles = {
        f"{size}, {words}": sizes[name]["kernels"]["kinds"]
        for size, sizes in found["sizes"].items()
        for name, words in ((DEFAULT, "as it ships"), ("all", "all three modes"))
        if name in sizes
    }
    rows = [
        f"| {name} | " + " | ".join(f"{kinds.get(kind, 0):.3f} s" for kind in kernels_page.KINDS) + " |"
        for name, kinds in profiles.items()
    ]
    small = found["sizes"]["320x192"]["all"]
    parts, kinds = small["parts"], small["kernels"]["kinds"]
    in_fp8 = sum(seconds for name, seconds in small["kernels"]["longest"].items() if _FP8_PRODUCT in name)
    about = filled(
        "PyTorch's profiler, in the same run: two steps, so four passes of the transformer, with the reading of both "
        "prompts before them and the decoding after them:",
    )
    after = filled(
        f"With all three modes the {COMPUTED} computed passes of 320x192 and the reading take "
        f"{parts['transformer']['gpu']:.2f} of the video's {small['seconds']:.2f} s, which is "
        f"{1000 * parts['transformer']['gpu'] / COMPUTED:.0f} ms for a pass; in the profile {1000 * in_fp8 / 4:.0f} "
        f"ms of a pass are products in FP8. The VAE takes {_vae(small):.2f} s, "
        f"{kinds['convolutions'] / _vae(small):.0%} of them for convolutions.",
    )
    head = f"| | {' | '.join(kernels_page.KINDS.values())} |\n|---|{'---|' * len(kernels_page.KINDS)}"
    return "\n".join([about, "", head, *rows, "", after])


def _about(results: dict[str, Any]) -> str:
    load = results["workload"]
    return filled(
        f"Measured {results['day']} on {results['machine']}, torch {results['torch']}, Diffusers "
        f"{results['diffusers']}, fa3-fwd {results['fa3-fwd']}, torchao {results['torchao']}, as the lock of the image "
        f"has them: random weights in Cosmos3-Nano's true shape, text to video, {load['frames']} frames, "
        f"{load['steps']} steps, guidance {load['guidance']:g}.",
    )


def last(rows: dict[str, Any]) -> dict[str, Any]:
    """Return the last row of a size, which has all accelerations."""
    most: dict[str, Any] = next(rows[name] for name in reversed(_MEASURES) if name in rows)
    return most


def _size(size: str, results: dict[str, Any]) -> str:
    rows = results["sizes"][size]
    baseline = rows["baseline"]["seconds"]
    lines = [
        f"### {size}",
        "",
        "| | seconds | speed relative to the baseline | transformer, its host time | VAE | everything else | "
        "whole job | difference, largest and mean |",
        "|---|---|---|---|---|---|---|---|",
    ]
    added: list[str] = []
    for name, description in _MEASURES.items():
        added.append(description)
        if name not in rows:
            continue
        one, parts = rows[name], rows[name]["parts"]
        rest = one["seconds"] - sum(parts[part].get("gpu", parts[part]["host"]) for part in ("transformer", "vae"))
        lines.append(
            f"| {'; '.join(added)} | {one['seconds']:.2f} | {baseline / one['seconds']:.2f} | "
            f"{_seconds(parts['transformer'])}, {parts['transformer']['host']:.2f} | {_seconds(parts['vae'])} | "
            f"{rest:.2f} | {one['whole']:.2f} | {one['largest']}, {one['mean']:.2f} |"
        )
        added.clear()
    return "\n".join([*lines, "", _limits(size, rows, _started(results, size)), "", ""])


def _limits(size: str, rows: dict[str, Any], started: list[float]) -> str:
    ours, baseline = last(rows)["seconds"], rows["baseline"]["seconds"]
    missing = "" if DEFAULT in rows else f"\n\nNot measured yet: {_MEASURES[DEFAULT]}."
    fast, goal = baseline / ours, GOALS[size]
    again = "".join(f", and {one:.2f} s if the engine is started as a worker starts it" for one in started)
    return (
        f"- Our engine is {fast:.2f} times as fast as the baseline, "
        f"{_verdict([fast >= LEAST[size]], f'limit: at least {LEAST[size]}')}.\n"
        f"- It takes {ours:.2f} s{again};\n"
        f"  {_verdict([one < goal for one in (ours, *started)], f'goal: under {goal} s (NVIDIA, for vLLM-Omni)')}.\n"
        f"- For Diffusers, NVIDIA published {_DIFFUSERS[size]:g} s, without the prompt.\n"
        f"- The differences are those of pixel values, 0 to 255, from the baseline.{missing}"
    )


def _started(results: dict[str, Any], size: str) -> list[float]:
    """Return the results of the engine started as a worker starts it, if they were measured."""
    whole = results.get("start", {}).get("diffusers", {}).get("with", {}).get("whole", {})
    return [whole[size]["generate"]] if size in whole else []


def _lossy(sizes: dict[str, Any]) -> str:
    lines = [
        "### Lossy modes",
        "",
        "These modes change the output and are [off by default](generator-engines.md#lossy-modes). They were measured",
        "with all optimizations above. With random weights, only the times are meaningful. Nothing is known about the",
        "quality: the difference shows that the video is another one, not whether it is worse.",
        "",
        "| | seconds | speed relative to our exact engine | difference from the baseline, largest and mean |",
        "|---|---|---|---|",
    ]
    for size, rows in sizes.items():
        for name, description in _LOSSY.items():
            one = rows.get(name)
            figures = "not measured yet | |"
            if one is not None:
                times = last(rows)["seconds"] / one["seconds"]
                figures = f"{one['seconds']:.2f} | {times:.2f} | {one['largest']}, {one['mean']:.2f}"
            lines.append(f"| {size}, {description} | {figures} |")
    return "\n".join([*lines, "", ""])


def _verdict(met: list[bool], limit: str) -> str:
    if all(met):
        return f"{limit}: met"
    return f"{limit}: {'**met by one of the two**' if any(met) else '**not met**'}"


def _seconds(part: dict[str, float]) -> str:
    """Return the seconds on the GPU, or on the host without a GPU."""
    return f"{part.get('gpu', part['host']):.2f}"


def _start(results: dict[str, Any]) -> str:
    if "start" not in results:
        return "### From a job to its first step\n\nNot measured yet.\n\n"
    return "### From a job to its first step\n\n" + "".join(_starts(one) for one in results["start"].values())


def _starts(start: dict[str, Any]) -> str:
    whole = start["with"]["whole"]
    rows = [f"| {start['with']['engine']}, to the first step | {' | '.join(whole)} |", f"|---|{'---|' * len(whole)}"]
    resident = {size: one["prepare"] + one["firstStep"] for size, one in whole.items()}
    for name, description in (("without", "nothing compiled before"), ("with", "compiled code kept")):
        one = start[name]
        took = one["boot"] + one["loaded"]
        longer = {size: one["firstJob"][size] - one["resident"][size] for size in whole}
        seconds = " | ".join(f"{took + max(longer[size], 0) + resident[size]:.1f} s" for size in whole)
        rows.append(f"| new process, {description}, at most | {seconds} |")
    rows.append(f"| model resident | {' | '.join(f'{seconds:.2f} s' for seconds in resident.values())} |")
    rows.append(f"| the whole job, resident | {' | '.join(f'{_whole(one):.2f} s' for one in whole.values())} |")
    phases = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in start["with"]["phases"].items())
    emptied = "was emptied before each" if start["with"]["filesForgotten"] else "could not be emptied"
    return (
        "\n".join(rows) + f"\n\nThe phases of the start with compiled code kept: {phases}. The page cache\n"
        f"{emptied}; the weights are on the machine's disk. The time by which the first job is slower than the\n"
        "second one is counted as time before its first step. The whole job ends when its file is written.\n\n"
    )


def _whole(one: dict[str, float]) -> float:
    """Return the seconds of a whole job. The phase `firstStep` is part of `generate`."""
    return one["prepare"] + one["generate"] + one["write"]


def _memory(results: dict[str, Any]) -> str:
    if "memory" not in results:
        return ""
    rows = [f"| {size} | {one['peakBytes'] / 2**30:.1f} GiB |" for size, one in results["memory"].items()]
    return "### Peak memory\n\n| | peak |\n|---|---|\n" + "\n".join(rows) + "\n\n"
