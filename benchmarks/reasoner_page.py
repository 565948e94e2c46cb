"""Write the reasoner's section of `docs/benchmarks.md` from its results."""

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
    return f"""## The reasoner on a GPU

{_about(true)}

{_three_ways(true)}

(a) is what a script in a container does for each file, with all caches kept from an earlier run. (b) is
`LLM.generate` of vLLM in one process, which is given the frames. (c) is everything a worker does, from the first
receive of the first message to the last delete: SQS, DynamoDB, S3, decoding, vLLM's server, document, callback. AWS
is [`instant_aws.py`](../benchmarks/instant_aws.py): botocore does all its work, and every call takes 20 ms. All three
see the same frames and sample alike; media are read by one thread of a script of vLLM's and by eight of its server.
Each answer is forced to its length by `ignore_eos`. Of (b) and (c) the better
of {true["workload"]["passes"]} passes counts, after one to warm up; of the 8B, below, there is one.{_why(true)}

### In flight

{_levels(true)}

From the file at hand to the first and the last token, decoding included. NVIDIA's columns are TTFT in ms / latency in
ms / requests a second, of another model, four times larger, with other videos and 100 tokens of answer; the GPU is the
same.

### Cold start

{_start(true)}

Of the 2B shape, from the process's first line to the first answer, to text alone. {_forgotten(true)}
What was compiled is kept as a worker keeps it
([decision 051](decisions/051-what-engines-compile-is-kept-in-s3.md)), with a folder in the place of S3; the wait for a
host and for the image is not in it.

{_on_slower_hosts()}### What a thousand clips cost

{_costs()}

{_estimated()}GPU-seconds on an L40S are an estimate: those of the H100 times {figures.SLOWER:.2f},
the larger of the two GPUs' ratios of arithmetic (989 to 362 TFLOP/s) and of memory (3.35 to 0.864 TB/s). Dollars are
GPU-seconds / 3600 x price of the instance / its GPUs, while it works; prices: {PRICES_AS_OF}.
VAMS's are the minutes that its documentation gives for one file, on a whole {figures.VAMS_INSTANCE}, times the same
price: seconds of the instance, whatever its GPUs do meanwhile.

{_on_the_cpu()}The commands, the first two on any machine, the others on one with a GPU and vLLM:

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

The tiny checkpoint answers a clip in less time than the worker needs for its calls, and all of it shares the machine's
cores: this says that it runs, and what a process for each clip costs; for (c) to (b), see the GPU.

"""


def _about(results: dict[str, Any]) -> str:
    load = results["workload"]
    prompt = results["worker"]["passes"][0]["promptTokens"] // load["clips"]
    true = f"random weights in the true {load['shape'].upper()} shape"
    return (
        f"Measured {results['day']} on {results['machine']}, vLLM {results['vllm']}: "
        f"{'the tiny checkpoint' if load['shape'] == 'tiny' else true}, {load['clips']} different clips of four "
        f"seconds at {320 * load['scale']} x {240 * load['scale']}, for each {prompt:,} tokens of prompt and "
        f"{load['tokens']} of answer."
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

(c) is not {figures.OF_PROCESSES} times (a), and with these clips no worker on this engine can be: (b), which has no
worker around it, is {rates.raw / rates.processes:.0f} times. A process for one clip, with all that is compiled kept,
takes {1 / rates.processes:.0f} s."""


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
        return "Before each start the page cache was emptied: weights and libraries come from the disk."
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
    return f"""Machines of one kind differ. On a second one with the same GPU `import vllm` took {imports[1]:.0f} s and
not {imports[0]:.0f}, (a) {1 / rates.processes:.0f} s a clip, (c) was {rates.of_raw:.2f} times (b) and \
{rates.of_processes:.0f} times (a), and a worker started in
{second["start"]["with"]["seconds"]:.0f} s with kept caches, in {second["start"]["without"]["seconds"]:.0f} s without.

Since then the server's core is forked with what is imported, and no dummy video is prepared. That was measured on a
third host alone, slower still: {start["seconds"]:.0f} s with kept caches, {start["phases"]["engine: imports"]:.0f} of \
them the imports and {start["phases"]["engine: warmup"]:.0f} the warm-up;
{third["start"]["without"]["seconds"]:.0f} s without. \
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
