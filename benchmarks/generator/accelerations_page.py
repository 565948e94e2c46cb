"""Write the section of `docs/benchmarks.md` about Diffusers on a GPU from its results."""

from statistics import fmean
from typing import Any

from benchmarks import kernels_page
from benchmarks.generator import mode_results, modes_page, queue_page
from benchmarks.paragraphs import filled
from benchmarks.results import FOLDER, commands_table, goal_row, stored

AS_IT_SHIPS = FOLDER / "generator-diffusers-nano.json"
OURS = FOLDER / "generator-ours-nano.json"  # the engine as it is, exact and with all lossy modes
WHOLE = FOLDER / "generator-whole-nano.json"  # whole jobs, whose files are encoded while the GPU decodes
ON_H200 = FOLDER / "generator-whole-nano-h200.json"  # the same on an H200
EACH_MODE = FOLDER / "generator-lossy-nano.json"  # of a run before the engine was asynchronous
BEFORE = FOLDER / "generator-lossy-nano-0acf09b4.json"  # of a run before the changes that its profile led to
SIZES = ("320x192", "832x480")
DEFAULT = "asynchronous"
"""The measure of the engine as it is."""
_LOSSY = {
    "fp8": "`fp8`",
    "stepCache": "`stepCache`",
    "both": "`fp8` and `stepCache`",
    "fp8Attention": "`fp8Attention`",
    "fp8Everywhere": "`fp8` and `fp8Attention`",
    "all": "`fp8`, `fp8Attention` and `stepCache`",
}
_JOBS = (
    "t2v:320x192,t2v:832x480,t2i:320x192,t2i:832x480,i2v:320x192,v2v:320x192,transfer:320x192,sound:320x192,"
    "forward_dynamics:320x192,inverse_dynamics:320x192,policy:320x192,t2v:1280x720"
)
_AS_IT_SHIPS = (
    "benchmarks.generator.modes --engine diffusers --shape nano --modes plain "
    f"--jobs {_JOBS} --first t2v:320x192,t2v:832x480 --pauses 4 --work FOLDER --into FILE"
)
_QUEUE = (
    "benchmarks.generator.modes --engine diffusers --shape nano --modes plain --jobs t2v:320x192 --first t2v:320x192 "
    "--pauses 8 --work FOLDER --into FILE"
)
_OURS = (
    "benchmarks.generator.accelerations --shape nano --steps measures --kernels "
    "--only asynchronous:320x192:832x480,all:320x192:832x480:1280x720 --work FOLDER --into FILE"
)
_EACH_MODE = (
    "benchmarks.generator.accelerations --shape nano --steps measures --sizes 320x192,832x480 "
    "--only asynchronous,fp8Attention:320x192,fp8:320x192,both,fp8Everywhere:320x192,all --work FOLDER --into FILE"
)
_COMMANDS = (
    (_AS_IT_SHIPS, "a job of each kind, and the pauses between jobs", (AS_IT_SHIPS,)),
    (_QUEUE, "a queue, on another host", (queue_page.DIFFUSERS,)),
    (
        _OURS,
        "our engine exact and with all lossy modes; whole jobs were measured without `--kernels`",
        (OURS, WHOLE, ON_H200),
    ),
    (_EACH_MODE, "each lossy mode, in runs of earlier commits", (EACH_MODE, BEFORE)),
    ("benchmarks.generator.accelerations --shape nano", "everything, also what the older optimizations gain", ()),
)


def text() -> str:
    """Return the section."""
    return f"""## Diffusers on a GPU

{_as_it_ships()}
{_ours()}

{_each_mode()}

### Where the time goes in Diffusers

{_kernels()}

What the older optimizations gain was not measured with the PyTorch of the image;
[decision 041](decisions/041-diffusers-made-fast.md) has the gains with an older one. To measure on a machine with a
GPU, with the packages of the image's lock:

{commands_table(_COMMANDS)}
"""


def _as_it_ships() -> str:
    """Return a job of each kind, and what a worker with a queue takes."""
    results, omni = (mode_results.read(path) for path in (AS_IT_SHIPS, modes_page.KINDS))
    pairs = " and ".join(
        f"{mode_results.generation_seconds(results, 'plain', size):.2f} s for a video of {size} (vLLM-Omni "
        f"{mode_results.generation_seconds(omni, 'plain', size):.2f} s)"
        for size in omni["modes"]["plain"]["kinds"]["t2v"]
    )
    large = omni["modes"]["plain"]["kinds"]["t2v"]["1280x720"]["seconds"]
    first, later = large["firstStep"], (large["generate"] - large["firstStep"]) / (omni["steps"] - 1)
    about = filled(
        f"Measured {results['day']} on {results['machine']}, {results['engine']}, torch {results['torch']}, commit "
        f"{results['commit']}, as the lock of the image has them but for NVIDIA's libraries, with the jobs of "
        f"[vLLM-Omni's tables](#the-generator-on-a-gpu), of which that of {omni['day']} is of the same machine: "
        f"{pairs}. Before each video from text of 320x192 and 832x480 another one had been made; each other job is the "
        "first of its kind or size. A thread of its own encodes a drawn clip while the GPU decodes, so a file is done "
        "soon after. With sound, and with a transfer, the frames come together at the end. A transfer follows the "
        "edges of a video, in three parts of 35 steps. The videos of 1280x720 were the first of their size. "
        f"vLLM-Omni's first step was done after {first:.1f} s, where each later one took about {later:.1f} s, so "
        "without what it does once for a size the two engines take about as long.",
    )
    return f"""{about}

{mode_results.HEAD}
{mode_results.rows(results)}

{_queue(results)}
"""


def _queue(results: dict[str, Any]) -> str:
    """Say what a worker with a queue takes for a video of 320x192, and what is between two of them."""
    newer = mode_results.read(queue_page.DIFFUSERS)
    decoding = _vae(stored(ON_H200)["sizes"]["320x192"][DEFAULT])
    step = fmean(newer["modes"]["plain"]["secondsOfAStep"])
    about = filled(
        f"A step counts when the host has queued it, which may be up to a step, {step:.2f} s, before the GPU has "
        f"computed it. Decoding takes {decoding:.2f} s in another run. The files are encoded meanwhile.",
    )
    return f"""{queue_page.text(newer, results)}

{about}

| goal | measured | |
|---|---|---|
{queue_page.goal_rows(results, newer)}
"""


def _ours() -> str:
    """Return our engine as it ships and with all lossy modes, in one run, and the goals."""
    found, whole = (stored(path) for path in (OURS, WHOLE))
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
        "up to three of the host's other GPUs ran benchmarks. A thread of its own encodes the file while the GPU "
        "decodes. A drawn clip was encoded in place of the generated one, because random weights make noise. A file of "
        f"320x192 was done {small['whole'] - small['seconds']:.2f} s after the GPU was. With all three modes, whole "
        f"jobs took {lossy[0]:.2f} s at 320x192, {lossy[1]:.2f} s at 832x480 and {lossy[2]:.2f} s at 1280x720.",
    )
    goals = ["| goal, on one H100 | measured | |", "|---|---|---|", *_goals(found, whole)]
    head = "| | generation | transformer, VAE | peak | difference |\n|---|---|---|---|---|"
    return "\n".join([about, "", head, *rows, "", after, "", *goals, "", _on_h200()])


def _on_h200() -> str:
    """Return whole jobs on an H200."""
    found = stored(ON_H200)
    whole = {
        name: ", ".join(
            f"{rows[name]['whole']:.2f} s at {size}" for size, rows in found["sizes"].items() if name in rows
        )
        for name in (DEFAULT, "all")
    }
    return filled(
        f"On an H200 whole jobs took {whole[DEFAULT]}; with all three modes {whole['all']} (all in one run, measured "
        f"{found['day']} on {found['machine']}, while the host's other GPU ran a benchmark).",
    )


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
        goal_row(
            f"{size}, exact, generation and encoding: at most {goal:g} s", whole["sizes"][size][DEFAULT]["whole"], goal
        )
        for size, goal in mode_results.EXACT.items()
    ]
    lossy = [
        goal_row(
            f"{size}, {_LOSSY['all']}, generation alone: at most {goal:g} s",
            ours["sizes"][size]["all"]["seconds"],
            goal,
        )
        for size, goal in modes_page.LOSSY.items()
    ]
    return [*exact, *lossy]


def _each_mode() -> str:
    """Return what each lossy mode gains and changes, in one run of an earlier day."""
    found = stored(EACH_MODE)
    small, large = (found["sizes"][size] for size in SIZES)
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
    before = stored(BEFORE)["sizes"]
    earlier = [[before[size][name]["seconds"] for size in SIZES] for name in ("fusedDecoder", "all")]
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
    found = stored(OURS)
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
