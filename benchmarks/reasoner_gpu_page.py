"""Write the section of `docs/benchmarks.md` about the reasoner with the vLLM that the images hold."""

import json
import statistics
import textwrap
from typing import Any

from benchmarks import kernels_page
from benchmarks.reasoner_large_clips import PRESETS
from benchmarks.results import FOLDER, kept

RESULT = FOLDER / "reasoner-gpu-2b.json"
RATES = {"bf16": 15, "fp8": 20}  # goals, in clips per second of a steady state on an H100
BUSY, OF_ALL_CORES = 95, 0.9  # goals: percent of the time, and the rate with four cores relative to that with sixteen
_FEW_CORES = 4
_NAMES = {
    "bf16": "16-bit",
    "fp8": "`--quantization fp8`",
    "fp8-kv": "`--quantization fp8 --kv-cache-dtype fp8`",
}


def text() -> str:
    """Return the section."""
    found = json.loads(RESULT.read_text(encoding="utf-8"))
    bf16 = found["bf16"]
    ready, plain, raw = best(bf16), bf16["plain"]["perSecond"], rate_of_raw(found)
    large = [bf16[f"1080p, {cores} cores"]["perSecond"] for cores in (16, 4)]
    answers, load = bf16["answers"], found["workload"]
    return f"""## The reasoner on a GPU

{_about(found)}

| | clips per second, {load["clips"]} clips | steady state | GPU busy | clock, power |
|---|---|---|---|---|
| vLLM cuts the clips itself | {plain:.2f} | | {_gpu(bf16["plain"])} |
{_rows(found)}
| raw vLLM: `LLM.generate`, 16-bit | {raw:.2f} | | | |

- The rates of {load["clips"]} clips are those of our whole worker, from the queue to the callback, all sent at once:
  the GPU waits for the first clips, and ends with few. Steady states are of {bf16["steady"]["clips"]:,} clips
  ({found["fp8"]["steady"]["clips"]} with FP8), these ends included.
- "GPU busy", clock and power are means over the middle 70 % of the longest pass of the row, from `nvidia-smi`. The
  limit of power is 700 W, and the highest clock 1,980 MHz.
- Our server takes clips [as patches](decisions/068-clips-reach-vllm-as-patches.md). That is {ready / plain:.2f} times
  as fast as what vLLM does itself with the same clips in the same server.
- {answers["sameAnswers"]} of {answers["compared"]} greedy answers of 32 tokens are the same either way. The largest
  difference of a first token's log-probability is {answers["largestDifference"]:g}.
- `LLM.generate` gets frames that were decoded before its time begins, and all prompts at once.
- In a profile over {found["profile"]["seconds"]} s, the server's thread that prepares media was busy in
  {_share(found, "server: prepares media")} of the samples; it was the limit before. The eight threads that read and cut
  clips were busy in {_share(found, "server: eight threads that read and cut clips")} together, the main thread of the
  core in {_share(found, "core: main thread")}.

| goal | measured | |
|---|---|---|
| at least {RATES["bf16"]} clips per second, 16-bit, on an H100 | {_steady(found, "bf16"):.2f} on an H200 | \
{_met(_steady(found, "bf16") >= RATES["bf16"], " on an H200, not measured on an H100")} |
| at least {RATES["fp8"]} clips per second, FP8, on an H100 | {_steady(found, "fp8"):.2f} on an H200 | \
{_met(_steady(found, "fp8") >= RATES["fp8"])} |
| GPU busy at least {BUSY} % in a steady state | {bf16["steady"]["gpuSteady"]["busy"]:.1f} % in the middle 70 %, \
{bf16["steady"]["gpu"]["busy"]:.1f} % with the ends | \
{_met(bf16["steady"]["gpuSteady"]["busy"] >= BUSY, " in the middle")} |
| faster than raw vLLM in the same session | {ready / raw:.2f} times for {load["clips"]} clips, \
{_steady(found, "bf16") / raw:.2f} in a steady state | {_met(ready > raw)} |
| 1920 x 1080: with 4 cores at least {OF_ALL_CORES} of the rate with 16 | {large[1]:.2f} and {large[0]:.2f} clips per \
second, {large[1] / large[0]:.2f} | {_met(large[1] >= OF_ALL_CORES * large[0])} |
| at least 600 times the clips of a process for each clip | not measured with this vLLM | **not met** |

{kernels_page.reasoner()}

Our worker is slower than raw vLLM because of the first seconds, in which the GPU waits.
{_large(bf16)}

{_starts(found)}

The machine was the same for all of them, and the files were in the page cache. Not measured with this release: a
start of the 16-bit model with kept caches (the second of these commands measures it), a process for each clip, the 8B,
two GPUs.

```
python -m benchmarks.reasoner_gpu --work FOLDER --into FILE --compare --plain --steady 1000 --large 32 --profile
python -m benchmarks.reasoner_gpu --work FOLDER --into FILE --passes 0
python -m benchmarks.reasoner_gpu --work FOLDER --into FILE --name fp8 --compare --steady 700 -- --quantization fp8
python -m benchmarks.reasoner --shape 2b --steps raw --passes 1 --levels "" --work FOLDER --into FILE
python -m benchmarks.reasoner_gpu --work FOLDER --into KERNELS --compare --kernels 128
python -m benchmarks.reasoner_gpu --work FOLDER --into KERNELS --name fp8 --compare --kernels 128 -- --quantization fp8
```

"""


def _large(bf16: dict[str, Any]) -> str:
    """Say what limits large clips, with the CPU seconds of sampling such a clip that were measured since."""
    [row] = [row for row in kept("decoding").measured if f"`{PRESETS[0]}`" in row.name]
    decoded = _FEW_CORES / statistics.median(row.raw["left_out_seconds"])
    goal = OF_ALL_CORES * bf16["1080p, 16 cores"]["perSecond"]
    return textwrap.fill(
        "The clips of 1920 x 1080 (H.264, 30 frames per second, ten seconds, 7 Mbit/s, sampled at 4 frames per second) "
        f"are decoded on the CPU, which is what limits them: {bf16['1080p, 16 cores']['phases']['decode']:.1f} s each, "
        "in eight threads. This was measured before frames that nobody needs were "
        f"[left out](#sampling-a-cameras-clip). Without these, {_FEW_CORES} cores that do nothing but decode "
        f"reach {decoded:.1f} such clips per second. The goal is {goal:.1f}, and the same cores must run the server "
        "and the worker too, so we expect that it needs the decoder of the GPU, which was not tried.",
        118,
        break_on_hyphens=False,
    )


def best(found: dict[str, Any]) -> float:
    """Return the best rate of all clips at once."""
    return max(float(found[step]["perSecond"]) for step in found if step.startswith("ready"))


def rate_of_raw(found: dict[str, Any]) -> float:
    """Return the clips per second of `LLM.generate`."""
    return float(found["workload"]["clips"] / found["raw"]["passes"][0]["seconds"])


def _steady(found: dict[str, Any], name: str) -> float:
    return float(found[name]["steady"]["perSecond"])


def _about(found: dict[str, Any]) -> str:
    load = found["workload"]
    return textwrap.fill(
        f"Measured {found['day']} on {found['machine']}, vLLM {found['vllm']}, torch {found['torch']}, as the lock of "
        f"the image has them: random weights in the true {load['shape'].upper()} shape, {load['clips']} different "
        f"clips of four seconds at 640 x 480, for each {round(found['bf16']['ready 0']['promptTokens']):,} tokens of "
        f"prompt and {load['tokens']} of answer. All in one session on one machine.",
        118,
        break_on_hyphens=False,
    )


def _rows(found: dict[str, Any]) -> str:
    rows = []
    for name, words in _NAMES.items():
        steady = found[name].get("steady")
        rate = "" if steady is None else f"{steady['perSecond']:.2f}"
        rows.append(
            f"| our worker, {words} | {best(found[name]):.2f} | {rate} | {_gpu(steady or found[name]['ready 0'])} |"
        )
    return "\n".join(rows)


def _gpu(one: dict[str, Any]) -> str:
    gpu = one["gpuSteady"]
    return f"{gpu['busy']:.1f} % | {gpu['megahertz']:,.0f} MHz, {gpu['watts']:.0f} W"


def _share(found: dict[str, Any], thread: str) -> str:
    profile = found["profile"]
    return f"{profile['samples'][thread] / profile['hertz'] / profile['seconds']:.0%}"


def _met(met: bool, where: str = "") -> str:
    return f"met{where}" if met else "**not met**"


def _starts(found: dict[str, Any]) -> str:
    starts = {
        f"{words}, {with_caches}": found[name][step]
        for name, words in (("bf16", "16-bit"), ("fp8", "FP8"))
        for step, with_caches in (("loadWithoutCaches", "without kept caches"), ("load", "with kept caches"))
        if step in found[name]
    }
    rows = [f"| start of a worker, 2B | {' | '.join(starts)} |", f"|---|{'---|' * len(starts)}"]
    for phase in next(iter(starts.values()))["phases"]:
        rows.append(f"| {phase} | " + " | ".join(f"{one['phases'][phase]:.1f} s" for one in starts.values()) + " |")
    rows.append("| all | " + " | ".join(f"{one['seconds']:.1f} s" for one in starts.values()) + " |")
    return "\n".join(rows)
