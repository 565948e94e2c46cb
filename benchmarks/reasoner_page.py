"""Write the reasoner's section of `docs/benchmarks.md` from its results."""

import textwrap
from typing import Any

from benchmarks import reasoner_figures as figures
from cosmos_batch.catalogue.hardware import INSTANCE_TYPES, PRICES_AS_OF

# NVIDIA's own serving figures for Cosmos3-Nano on one H100 80GB HBM3, vLLM and AIPerf (inference_benchmarks.md, June
# 2026), 50 tokens in, 100 out, one video: in flight, time to first token in ms, latency in ms, requests per second.
_NVIDIA = {
    "1 fps": [(1, 143, 866, 1.15), (64, 1721, 5252, 12.14), (128, 2906, 9819, 12.87), (256, 9001, 18354, 12.83)],
    "2 fps": [(1, 232, 967, 1.03), (64, 2295, 9738, 6.54), (128, 8768, 18062, 6.53), (256, 23215, 33190, 6.60)],
}


def text() -> str:
    """Return the section."""
    true = figures.kept("2b")
    return f"""## The reasoner on an older vLLM

The images hold vLLM 0.32.0 now. The figures of this section were measured with 0.26.0 and not yet again.

{_about(true)}

{_three_ways(true)}

- (a) is what a script in a container does for each file, with all caches of an earlier run.
- (b) is `LLM.generate` of vLLM in one process, which gets the frames as input.
- (c) is all work of a worker, from the first receive of the first message to the last delete: SQS, DynamoDB, S3,
  decoding, vLLM's server, document, callback. AWS is replaced by [`instant_aws.py`](../benchmarks/instant_aws.py):
  botocore does all its work, and every call takes 20 ms.

All three use the same frames and the same sampling parameters. In (a) and (b) one thread reads the media, in (c) eight
threads of vLLM's server do. `ignore_eos` forces each answer to its length. (b) and (c) are the better of
{true["workload"]["passes"]} passes, after one pass to warm up; for the 8B, further below, there is one.{_why(true)}

### In flight

{_levels(true)}

The times are from the downloaded file to the first token (TTFT) and to the last one (latency), with decoding.
NVIDIA's columns are TTFT in ms / latency in ms / requests per second. They were measured on the same GPU, but with a
model that is four times larger, other videos, and 100 tokens of answer.

### Cold start

{_start(true)}

The times are those of the 2B shape, from the first line of the process to the first answer, which is to a prompt
without media. {_forgotten(true)}
Compiled code is kept as a worker keeps it ([decision 051](decisions/051-what-engines-compile-is-kept-in-s3.md)), but in
a folder instead of S3. The times do not include the wait for a host and for the image.

{_on_slower_hosts()}### What a thousand clips cost

{_costs()}

{_estimated()}GPU-seconds on an L40S are an estimate: those of the H100 times {figures.SLOWER:.2f}, the larger of the
two GPUs' ratios of arithmetic (989 to 362 TFLOP/s) and of memory bandwidth (3.35 to 0.864 TB/s). Dollars are
GPU-seconds / 3600 x price of the instance / number of its GPUs, for the time in which the instance works.
Prices: {PRICES_AS_OF}.
VAMS's figures are the minutes for one file in its documentation, on a whole {figures.VAMS_INSTANCE}, times the same
price. They are seconds of the instance, not of its GPUs.

{_on_the_cpu()}The commands are the following. The first two run on any machine, the others need a GPU and vLLM:

```
make bench
python -m benchmarks --only reasoner
python -m benchmarks.reasoner --shape 2b
python -m benchmarks.reasoner --shape 8b --steps worker --levels "" --passes 1
```
"""


def _on_the_cpu() -> str:
    """Return the part about the CPU, if `make bench` has run on a machine with vLLM."""
    if not figures.was_measured("tiny"):
        return ""
    tiny = figures.kept("tiny")
    return f"""## The reasoner on the CPU

{_about(tiny)}

{_three_ways(tiny)}

The tiny checkpoint answers a clip in less time than the worker needs for its calls, and all processes share the cores
of the machine. So these figures show that everything runs, and what a process for each clip costs. The ratio of (c) to
(b) is only meaningful on a GPU.

"""


def _about(results: dict[str, Any]) -> str:
    load = results["workload"]
    prompt = results["worker"]["passes"][0]["promptTokens"] // load["clips"]
    true = f"random weights in the true {load['shape'].upper()} shape"
    return textwrap.fill(
        f"Measured {results['day']} on {results['machine']}, vLLM {results['vllm']}: "
        f"{'the tiny checkpoint' if load['shape'] == 'tiny' else true}, {load['clips']} different clips of four "
        f"seconds at {320 * load['scale']} x {240 * load['scale']}, for each {prompt:,} tokens of prompt and "
        f"{load['tokens']} of answer.",
        118,
        break_on_hyphens=False,
    )


def _three_ways(results: dict[str, Any]) -> str:
    rates = figures.rates(results)
    limits = results["workload"]["shape"] != "tiny"
    return f"""| | clips per second | |
|---|---|---|
| (a) a new process for each clip | {rates.processes:.4f} | {1 / rates.processes:.1f} s each |
| (b) raw vLLM, all clips at once | {rates.raw:.2f} | |
| (c) our worker, from queue to callback | {rates.worker:.2f} | |
| (c) / (b) | {rates.of_raw:.2f} | {_limit(rates.of_raw >= figures.OF_RAW, f"at least {figures.OF_RAW}", limits)} |
| (c) / (a) | {rates.of_processes:.0f} | \
{_limit(rates.of_processes >= figures.OF_PROCESSES, f"at least {figures.OF_PROCESSES}", limits)} |"""


def _limit(met: bool, words: str, holds: bool) -> str:
    if not holds:
        return ""
    return f"limit: {words}: {'met' if met else '**not met**'}"


def _why(results: dict[str, Any]) -> str:
    rates = figures.rates(results)
    if rates.of_processes >= figures.OF_PROCESSES:
        return ""
    return f"""

(c) is less than {figures.OF_PROCESSES} times as fast as (a). With these clips, no worker can reach that limit with this
engine: even (b), vLLM without a worker, is only {rates.raw / rates.processes:.0f} times as fast. A process for one clip
takes {1 / rates.processes:.0f} s, with all compiled code kept."""


def _levels(results: dict[str, Any]) -> str:
    theirs = {rate: {row[0]: row for row in rows} for rate, rows in _NVIDIA.items()}
    lines = [
        "| in flight | TTFT ms | latency ms | requests/s | NVIDIA, Nano, 1 fps | NVIDIA, Nano, 2 fps |",
        "|---|---|---|---|---|---|",
    ]
    for one in results["worker"]["inFlight"]:
        beside = [_theirs(theirs[rate][one["level"]]) for rate in theirs]
        own = f"{one['firstToken'] * 1000:,.0f} | {one['latency'] * 1000:,.0f} | {one['perSecond']:.2f}"
        lines.append(f"| {one['level']} | {own} | {' | '.join(beside)} |")
    return "\n".join(lines)


def _theirs(row: tuple[int, int, int, float]) -> str:
    return f"{row[1]:,} / {row[2]:,} / {row[3]:.2f}"


def _start(results: dict[str, Any]) -> str:
    without, kept = results["start"]["without"], results["start"]["with"]
    phases = [name for name in without["phases"] if name != "engine"]
    rows = [f"| {name} | {without['phases'][name]:.1f} s | {kept['phases'][name]:.1f} s |" for name in phases]
    met = _limit(kept["seconds"] <= figures.START_SECONDS, f"at most {figures.START_SECONDS} s", holds=True)
    total = f"| all | {without['seconds']:.1f} s | {kept['seconds']:.1f} s; {met} |"
    return "\n".join(["| phase | without kept caches | with them |", "|---|---|---|", *rows, total])


def _forgotten(results: dict[str, Any]) -> str:
    if all(one["filesForgotten"] for one in results["start"].values()):
        return "Before each start, the page cache was emptied, so that weights and libraries are read from the disk."
    return "The page cache could not be emptied."


def _on_slower_hosts() -> str:
    """Return the part about slower hosts with the same GPU."""
    if not figures.was_measured("2b-slower-host"):
        return ""
    first, second, third = (figures.kept(name) for name in ("2b", "2b-slower-host", "2b-start"))
    imports = [one["process"][0]["import"] for one in (first, second)]
    rates, start = figures.rates(second), third["start"]["with"]
    slowest = max(one["start"]["with"]["seconds"] for one in (second, third))
    limit = _limit(slowest <= figures.START_SECONDS, f"at most {figures.START_SECONDS} s on these two", holds=True)
    return f"""Machines of the same kind differ. On a second one with the same GPU, `import vllm` took
{imports[1]:.0f} s instead of {imports[0]:.0f} s, (a) took {1 / rates.processes:.0f} s for each clip, \
(c) was {rates.of_raw:.2f} times (b)
and {rates.of_processes:.0f} times (a), and a worker started in {second["start"]["with"]["seconds"]:.0f} s with kept \
caches and in {second["start"]["without"]["seconds"]:.0f} s without.

Since these measurements, the core process of the server is forked after the imports, and vLLM prepares no dummy video.
This was measured only on a third host, which is even slower: a start took {start["seconds"]:.0f} s with kept caches, of
which {start["phases"]["engine: imports"]:.0f} s were the imports and {start["phases"]["engine: warmup"]:.0f} s the \
warm-up, and {third["start"]["without"]["seconds"]:.0f} s without.
The {limit}.

"""


def _costs() -> str:
    rows = ["| model | where | GPU-seconds (VAMS: instance-seconds) | dollars |", "|---|---|---|---|"]
    for shape, minutes in figures.VAMS_MINUTES.items():
        seconds, measured = figures.gpu_seconds(shape)
        rows += [
            _cost(shape, "measured" if measured else "estimated", "p5.4xlarge", seconds),
            _cost(shape, "estimated", figures.VAMS_INSTANCE, seconds * figures.SLOWER),
        ]
        price = INSTANCE_TYPES[figures.VAMS_INSTANCE].dollars_per_hour / 60 * 1000
        theirs, dollars = _range(*(one * 60_000 for one in minutes)), _range(*(one * price for one in minutes))
        rows.append(f"| {shape.upper()} | VAMS, {minutes[0]} to {minutes[1]} minutes a file | {theirs} | {dollars} |")
    return "\n".join(rows)


def _cost(shape: str, how: str, instance: str, seconds: float) -> str:
    gpu = INSTANCE_TYPES[instance].gpu
    dollars = figures.dollars(seconds, instance)
    return f"| {shape.upper()} | {gpu} ({instance}), {how} | {seconds:,.0f} | {dollars:.2f} |"


def _estimated() -> str:
    if figures.was_measured("8b"):
        return ""
    share = figures.PARAMETERS["8b"] / figures.PARAMETERS["2b"]
    return f"""The 8B was not measured: its GPU-seconds are an estimate, those of the 2B times the ratio of their
parameters, {share:.2f}. """


def _range(least: float, most: float) -> str:
    return f"{least:,.0f} to {most:,.0f}"
