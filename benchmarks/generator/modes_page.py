"""Write the section of `docs/benchmarks.md` about vLLM-Omni on a GPU, as it ships and in its lossy modes."""

import statistics
from pathlib import Path
from typing import Any

from benchmarks import kernels_page
from benchmarks.generator import phyai_page, queue_page, two_gpus_page
from benchmarks.generator.mode_results import EXACT, HEAD, generation_seconds, read, rows, video_seconds
from benchmarks.paragraphs import filled
from benchmarks.results import FOLDER, commands_table, goal_row
from cosmos_batch.catalogue.generation import MODES

RESULT = FOLDER / "generator-modes-nano.json"
KINDS = FOLDER / "generator-modes-nano-kinds.json"  # more kinds, 1280x720 and a queue, where Diffusers was measured
SEA_CACHE = FOLDER / "generator-modes-nano-sea-cache.json"  # on the same machine
EARLIER = FOLDER / "generator-modes-nano-h100.json"  # the same versions on another GPU
LOSSY = {"320x192": 3.0, "832x480": 25.0, "1280x720": 90.0}  # goals of named modes, generation alone

# NVIDIA's seconds of generation alone on one H100 for 256p, 480p and 720p, without a file's encoding
# (NVIDIA/cosmos, inference_benchmarks/cosmos3-nano*-generator.md, November 2026).
NVIDIA = {
    "vLLM-Omni, 16-bit": ("6.97", "58.17", "202.29"),
    "NIM, FP8": ("5.35", "46.08", "173.20"),
    "Cosmos Framework, FP8": ("3.12", "26.01", "94.01"),
}
_JOBS = (
    "--jobs t2v:320x192,t2v:832x480,t2v:1280x720,t2i:320x192,t2i:832x480,i2v:320x192,sound:320x192 "
    "--first t2v:320x192,t2v:832x480"
)
_MODES = "benchmarks.generator.modes"
_PHYAI_COMMAND = (
    "benchmarks.generator.modes --engine phyai --shape nano --modes plain --jobs t2v:320x192,i2v:320x192,"
    "sound:320x192,policy:320x192,forward_dynamics:320x192,inverse_dynamics:320x192,v2v:320x192,t2v:832x480 "
    "--first t2v:320x192 --work FOLDER --into FILE"
)
_KINDS_COMMAND = (
    f"{_MODES} --shape nano --modes plain --jobs t2v:320x192,v2v:320x192,transfer:320x192,forward_dynamics:320x192,"
    "inverse_dynamics:320x192,policy:320x192,t2v:1280x720 --first t2v:320x192 --pauses 4 --work FOLDER --into FILE"
)
_SEA_CACHE_COMMAND = (
    f"{_MODES} --shape nano --modes seaCache --jobs t2v:320x192,t2v:832x480 --first t2v:320x192,t2v:832x480 "
    "--work FOLDER --into FILE"
)
_QUEUE_COMMAND = (
    f"{_MODES} --shape nano --modes plain --jobs t2v:320x192,v2v:320x192,transfer:320x192 --first t2v:320x192 "
    "--pauses 8 --work FOLDER --into FILE"
)
_STATIC_COMMAND = (
    f"{_MODES} --shape nano --modes static,both --jobs t2v:320x192,t2v:832x480 --first t2v:320x192,t2v:832x480 "
    "--work FOLDER --into FILE"
)
_ON_TWO_GPUS = "--jobs t2v:320x192,t2v:832x480 --first t2v:320x192 --work FOLDER --into FILE"
_COMMANDS: tuple[tuple[str, str, tuple[Path, ...]], ...] = (
    (
        f"{_MODES} --shape nano --modes plain,fp8 {_JOBS} --pauses 4 --work FOLDER --into FILE",
        "vLLM-Omni on one GPU; on the H100 the modes were `plain` and `seaCache`, and the jobs videos from text",
        (RESULT, EARLIER),
    ),
    (_KINDS_COMMAND, "more of vLLM-Omni's kinds on one GPU, and its pauses", (KINDS,)),
    (_SEA_CACHE_COMMAND, "its `seaCache` on that GPU", (SEA_CACHE,)),
    (_QUEUE_COMMAND, "a transfer, and a queue, on the other host", (queue_page.OMNI,)),
    (_STATIC_COMMAND, "two more modes on that host, each on a GPU of its own", (queue_page.OMNI,)),
    (
        "benchmarks.generator.kernels --shape nano --modes plain,fp8 --sizes 832x480 --steps 10 --work FOLDER",
        "where vLLM-Omni's time goes",
        (kernels_page.GENERATOR,),
    ),
    (_PHYAI_COMMAND, "PhyAI on one GPU", (phyai_page.RESULT,)),
    (
        "benchmarks.generator.restarts phyai --shape nano --work FOLDER --into FILE",
        "PhyAI's server after cancelled and killed jobs",
        (phyai_page.RESTARTS,),
    ),
    (
        f"{_MODES} --engine phyai --shape nano --modes cfg2,tp2 {_ON_TWO_GPUS}",
        "PhyAI on two GPUs",
        (two_gpus_page.PHYAI,),
    ),
    (
        f"{_MODES} --shape nano --modes cfg2,tp2,cfg2Hsdp {_ON_TWO_GPUS}",
        "vLLM-Omni on two GPUs, in two runs: `cfg2` on H100, the others on H200",
        (two_gpus_page.OMNI, two_gpus_page.OMNI_ON_H200),
    ),
)
_MISSING = """Not measured, because the time on the machines went to the other measurements:

- an exact video of 1280x720 on an H100, with any engine; and continued videos, transfer and a robot's actions there,
  but with PhyAI;
- vLLM-Omni with attention in FP8; its FP8, images, sound and videos from images on an H100; its cfg 2 without HSDP on
  two H200, which was tried, but its processes could not start from the command that had been written there in place of
  pip's; and its tp 2 on two H100;
- Diffusers' images, videos from images and sound on an H100; images of 1280x720, and videos from images and sound above
  320x192, with any engine; on two GPUs all but videos from text of 320x192 and 832x480;
- a queue of videos on an H100, and of larger ones than 320x192;
- PhyAI on an H200, but for its restarts, so neither cfg 2 nor tp 2 there;
- what memory in segments that can grow (`expandable_segments`) gains: it is on, and no run was without.

Not measured for other reasons: NVIDIA's recipe for FP8, which keeps 16 bit in the first and last three steps, and
NVIDIA's own weights in FP8, because these were not there; and HSDP on GPUs without NVLink, because there were none, so
plans keep tensor parallelism there."""


def text() -> str:
    """Return the section."""
    results, earlier = read(RESULT), read(EARLIER)
    kinds, sea_cache, queue = read(KINDS), read(SEA_CACHE), read(queue_page.OMNI)
    published = "\n".join(f"| {engine} | {' | '.join(seconds)} |" for engine, seconds in NVIDIA.items())
    return f"""## The generator on a GPU

{_about(results)}

{HEAD}
{rows(results)}

- The encoding is that of a drawn clip of the same size, because random weights make noise. That of an image is its own.
  Files were encoded with x264's preset `medium` then; since commit f7aa754f that takes less than half of the time.
- A job of the same kind and size was made before each video from text of 320x192 and 832x480. The other rows are of
  the first job of their kind. Peaks include what the server keeps of the jobs before.
{_parts(results)}

{_of_kinds(kinds)}

{HEAD}
{rows(kinds)}
{rows(sea_cache)}

{_of_another_host(queue)}

{HEAD}
{rows(queue)}

{_of_h100(earlier)}

{HEAD}
{rows(earlier)}

- How many steps `seaCache` skips depends on the video. With random weights these are the steps that noise lets it skip:
  its times here say nothing of a real video, and count for no goal.
- For comparison, NVIDIA's seconds of generation alone, on one H100:

| | 256p | 480p | 720p |
|---|---|---|---|
{published}

| goal | measured | |
|---|---|---|
{_goals(results)}
{queue_page.goal_rows(kinds, queue)}

These are vLLM-Omni's. Diffusers, for which `auto` stands on H100 and H200, has [a table of its
own](#diffusers-on-a-gpu) with the same goals.

{queue_page.text(queue, kinds)}

{_of_larger(results, kinds, queue)}

{_MISSING}

{kernels_page.generator()}

Cosmos Framework was never run on a GPU. Its lock takes flash-attn, natten and Transformer Engine from
https://nvidia-cosmos.github.io/cosmos-dependencies and torch 2.10 for CUDA 13 from https://download.pytorch.org, and
neither could be reached where these measurements were made ("Could not resolve host: nvidia-cosmos.github.io").

{phyai_page.text()}

{two_gpus_page.text(results)}

### Commands of the generator

The packages of each image's lock were copied to the machine, beside the repository, and the commands ran there. Those
with `cfg2` need two GPUs.

{commands_table(_COMMANDS)}

"""


def _about(results: dict[str, Any]) -> str:
    return filled(
        f"Measured {results['day']} on {results['machine']}, {results['engine']}, torch {results['torch']}. In all "
        "runs of the generator Python's packages are those of the image's lock, except NVIDIA's libraries (CUDA, "
        "cuDNN, NCCL), which were the machine's. Random weights in Cosmos3-Nano's true shape, "
        f"{results['frames']} frames, {results['steps']} steps, prompts of 1,500 tokens, without guardrails, through "
        "our engine. All kinds of jobs have these steps, and guidance with the negative prompt, so that their times "
        f"can be compared: by default an image has {MODES['t2i'].steps} steps, and one with a robot's actions has "
        f"{MODES['policy'].steps} and no guidance, which are {MODES['policy'].steps} passes of the model in place of "
        f"{2 * results['steps']}.",
    )


def _of_kinds(kinds: dict[str, Any]) -> str:
    """Introduce the table of more kinds and of `seaCache`."""
    return filled(
        f"Measured {kinds['day']} on {kinds['machine']}, with the same versions, at commit {kinds['commit']}: other "
        "kinds of jobs, and `seaCache`. Jobs with a robot's actions have 17 frames. Before each video from text of "
        "320x192, and with `seaCache` of 832x480, another one had been made; each other job is the first of its kind "
        "or size.",
    )


def _of_another_host(queue: dict[str, Any]) -> str:
    """Introduce the table of the host with a transfer, two more modes, and the newer queue."""
    small, large = EXACT
    exact, static = (generation_seconds(queue, mode, small) for mode in ("plain", "static"))
    return filled(
        f"Measured {queue['day']} on another host, {queue['machine']}, with the same versions, at commit "
        f"{queue['commit']}, while the host's other GPU ran other benchmarks: a transfer, which follows the edges of a "
        "video in three parts of 35 steps; the model compiled for each size in place of once for all (`static`); and, "
        "on the other GPU, FP8 with `seaCache`. Each video from text had been made once before. Compiled for each size "
        f"a video of {small} takes {static / exact:.2f} of its time as it ships, and one of {large} "
        f"{generation_seconds(queue, 'static', large):.1f} s, about what it takes in the first table. So no plan of "
        "ours compiles for each size.",
    )


def _of_larger(results: dict[str, Any], *queues: dict[str, Any]) -> str:
    """Say how many larger videos a worker makes in an hour at least."""
    seconds = generation_seconds(results, "plain", "832x480") + max(map(queue_page.longest_pause, queues))
    return filled(
        f"Of 832x480 it makes at least {int(3600 / seconds)} an hour, by the seconds of generation and the longest "
        "pause of the small ones.",
    )


def _of_h100(earlier: dict[str, Any]) -> str:
    """Introduce the table of an H100."""
    return filled(
        f"Measured {earlier['day']} on {earlier['machine']}, with the same versions and videos from text. The encoding "
        "is that of noise, so a whole job is at most as long as here:",
    )


def _parts(results: dict[str, Any]) -> str:
    """Return where the time of the smallest video goes, by the steps that were watched between two jobs."""
    plain = results["modes"]["plain"]
    if not plain.get("secondsOfAStep"):
        return ""
    (size, job), steps = next(iter(plain["kinds"]["t2v"].items())), results["steps"]
    step, whole = statistics.median(plain["secondsOfAStep"]), job["seconds"]["generate"]
    before = max(0.0, job["seconds"]["firstStep"] - step)
    return filled(
        f"- Of the {whole:.2f} s of a {size} video, {steps * step:.2f} s are its {steps} steps. {before:.2f} s pass "
        f"before them, and {whole - before - steps * step:.2f} s after them, with the decoding: the next job in the "
        "queue waits for it. The frames are copied from the GPU as floats: vLLM-Omni 0.30.0 makes bytes of them there "
        "for Wan 2.2 alone (`--video-output-transport`).",
        subsequent_indent="  ",
    )


def _goals(results: dict[str, Any]) -> str:
    rows = []
    for size, goal in EXACT.items():
        job = video_seconds(results, "plain", size)
        rows.append(goal_row(f"{size}, exact, generation and encoding: at most {goal:g} s", job and sum(job), goal))
    for size, goal in LOSSY.items():
        job = video_seconds(results, "fp8", size)
        rows.append(goal_row(f"{size}, FP8: at most {goal:g} s", job and job[0], goal))
    return "\n".join(rows)
