"""Write the section of `docs/benchmarks.md` about the reasoner on the CPU from its results."""

from typing import Any

from benchmarks.paragraphs import filled
from benchmarks.reasoner import figures


def text() -> str:
    """Return the section, or nothing if `make bench` has not run on a machine with vLLM."""
    if not figures.was_measured("tiny"):
        return ""
    tiny = figures.kept("tiny")
    rates = figures.rates(tiny)
    return f"""## The reasoner on the CPU

{_about(tiny)}

| | clips per second | |
|---|---|---|
| (a) a new process for each clip | {rates.processes:.4f} | {1 / rates.processes:.1f} s each |
| (b) raw vLLM, all clips at once | {rates.raw:.2f} | |
| (c) our worker, from queue to callback | {rates.worker:.2f} | |
| (c) / (b) | {rates.of_raw:.2f} | |
| (c) / (a) | {rates.of_processes:.0f} | |

The tiny checkpoint answers a clip in less time than the worker needs for its calls, and all processes share the cores
of the machine. So these figures show that everything runs, and what a process for each clip costs. The ratio of (c) to
(b) is only meaningful on a GPU. AWS is replaced by [`instant_aws.py`](../benchmarks/app/instant_aws.py), whose calls
take 20 ms. `python -m benchmarks --only reasoner` measures this again.
"""


def _about(results: dict[str, Any]) -> str:
    load = results["workload"]
    prompt = results["worker"]["passes"][0]["promptTokens"] // load["clips"]
    return filled(
        f"Measured {results['day']} on {results['machine']}, vLLM {results['vllm']}: the tiny checkpoint, "
        f"{load['clips']} different clips of four seconds at {320 * load['scale']} x {240 * load['scale']}, for each "
        f"{prompt:,} tokens of prompt and {load['tokens']} of answer.",
    )
