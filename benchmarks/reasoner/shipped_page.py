"""Write the part of the reasoner's section with which it begins: its rates as it ships, and which goals they meet."""

from statistics import fmean
from typing import Any

from benchmarks.paragraphs import filled, listed
from benchmarks.reasoner import large_page, start_page
from benchmarks.reasoner.gpu_results import (
    PROCESSES,
    STEPS,
    cpu_seconds_of_clip,
    in_16_bit,
    rate_of_raw,
    rates_of_raw,
    ready_passes,
    sessions_with_processes,
    steady_passes,
    steady_rate,
)
from benchmarks.results import stored

RATES = {"bf16": 15, "fp8": 20}  # goals, in clips per second of a steady state on an H100
OF_PROCESSES = 600  # goal: the rate of our worker relative to that of a process for each clip
BUSY, OF_ALL_CORES = 95, 0.9  # goals: percent of the time, and the rate with four cores relative to that with sixteen
_PARTS = {
    "worker": "the worker",
    "preparation": "the processes that prepare requests",
    "server": "vLLM's server",
    "engine": "its engine",
}


def as_it_ships(shipped: dict[str, Any], threads: dict[str, Any], h200: dict[str, Any]) -> str:
    """Return the rates with what is in the images, those of raw vLLM, and those of earlier commits."""
    exact, other, load = h200["bf16"], h200["otherGpu"], h200["workload"]
    of_few, steady, before = other["bf16"]["ready 0"], exact["steady"], shipped["before"]
    about = filled(
        f"Measured {h200['day']} on {h200['machine']}, vLLM {h200['vllm']}, torch {h200['torch']}, as the lock of the "
        f"image has them: random weights in the true {load['shape'].upper()} shape, {of_few['clips']} "
        f"different clips of four seconds at 640 x 480, for each {round(of_few['promptTokens']):,} tokens "
        f"of prompt and {load['tokens']} of answer. A pass of {steady['clips']:,} asks about the same clips several "
        "times, with other system prompts. Each of the hosts A, D and E has two such GPUs, with 16 cores each, which "
        "ran benchmarks at the same time; F has one.",
    )
    return f"""{about}

| | clips per second, {steady["clips"]:,} clips | {of_few["clips"]} clips | GPU busy | clock, power |
|---|---|---|---|---|
| F: our worker, 16-bit, commit {shipped["commit"]} | {_of_passes(shipped["bf16"])} |
| F, before: raw vLLM, `LLM.generate`, 16-bit | {listed(rates_of_raw(shipped), 2)} | | | |
| E: our worker, 16-bit, the same before it was committed | {_of_passes(before["bf16"])} |
| D, first GPU: our worker, 16-bit, commit {threads["commit"]}, decoding in threads | {_of_passes(threads["bf16"])} |
| D, second GPU: the same | {_of_passes(threads["otherGpu"]["bf16"])} |
| A, first GPU: our worker, 16-bit, commit {h200["commit"]}, decoding in threads | {_of_passes(exact)} |
| A, first GPU, before: raw vLLM, 16-bit | {listed(rates_of_raw(h200), 2)} | | | |
| A, second GPU: our worker, 16-bit | {_of_passes(other["bf16"])} |
| A, second GPU, after: the same, with all of vLLM's CUDA graphs | {_of_passes(other["graphs"])} |
| A, first GPU: our worker, `fp8` and `fp8Cache` | {_of_passes(h200["fp8Cache"])} |

- Our rates are those of the whole worker, from the queue to the callback. All clips are sent at once: the GPU waits for
  the first of them, and ends with few. `LLM.generate` gets all prompts at once, with frames that were decoded before
  its time begins.
- "GPU busy", clock and power are means over the middle 70 % of each pass, from `nvidia-smi`. The limit of power is
  700 W, the highest clock 1,980 MHz.
{filled(_of_processes_and_threads(shipped, threads), subsequent_indent="  ")}
{filled(_of_steps(stored(STEPS)), subsequent_indent="  ")}
- {_same_answers([threads["bf16"], exact, other["bf16"], h200["fp8Cache"]])} greedy answers of hosts A and D are the \
same with our patches and with vLLM's.
{filled(_of_fp8(h200), subsequent_indent="  ")}
{filled(_of_graphs(h200), subsequent_indent="  ")}
- vLLM finds no CUDA compiler in our image, and did not find the machine's."""


def _of_passes(session: dict[str, Any]) -> str:
    """Return the cells of a session: its passes of 1,000 clips, that of few, and what the GPU did."""
    passes = steady_passes(session)
    few = listed((one["perSecond"] for one in ready_passes(session)), 2)
    busy = listed((one["gpuSteady"]["busy"] for one in passes), 1)
    clock, power = (fmean(one["gpuSteady"][of] for one in passes) for of in ("megahertz", "watts"))
    rates = listed((one["perSecond"] for one in passes), 2)
    return f"{rates} | {few} | {busy} % | {clock:,.0f} MHz, {power:.0f} W"


def _same_answers(sessions: list[dict[str, Any]]) -> str:
    same, compared = (sum(one["answers"][of] for one in sessions) for of in ("sameAnswers", "compared"))
    return f"{same} of {compared}"


def _of_processes_and_threads(shipped: dict[str, Any], threads: dict[str, Any]) -> str:
    """Say what a clip takes of the cores where processes decode, and where threads do."""
    [now], then = steady_passes(shipped["bf16"]), [one for run in in_16_bit(threads) for one in steady_passes(run)]
    of_threads = sorted(sum(cpu_seconds_of_clip(one).values()) for one in then)
    of_clip = cpu_seconds_of_clip(now)
    parts = ", ".join(f"{of_clip[name]:.3f} {of}" for name, of in _PARTS.items())
    return (
        f"- A clip took all processes on F {sum(of_clip.values()):.2f} s of CPU time: {parts}. With [decoding in "
        "threads](decisions/057-requests-are-prepared-in-processes.md), until commit 23034895, it took "
        f"{of_threads[0]:.2f} to {of_threads[-1]:.2f} s on D."
    )


def _of_steps(found: dict[str, Any]) -> str:
    """Say why the GPU waited for clips from threads, and not for those from processes."""
    threads, processes, gaps = found["threads"], found["processes"], found["gapsWithThreads"]
    return (
        f"- Where each step of vLLM's engine was noted, {threads['firstClipsPerSecond']:.0f} clips a second reached it "
        f"from threads at the start of a pass, and {processes['firstClipsPerSecond']:.0f} from processes. From then on "
        "clips that begin together end together, and make room for the next ones together: mostly "
        f"{_usual_clips(threads)} with threads, {_usual_clips(processes)} with processes. "
        "Before a step with new clips the engine's thread schedules "
        "them, and joins their patches in memory that the GPU can read; with many of them that takes longer than the "
        f"GPU works at the step before. So it had nothing to do for {100 * gaps['all'] / gaps['span']:.1f} % of "
        f"{gaps['span']:.0f} s with threads, by a trace of PyTorch's profiler, mostly before such a step."
    )


def _usual_clips(run: dict[str, Any]) -> str:
    """Return how many clips began in most of the steps in which any did."""
    steps: dict[str, int] = run["clipsOfSteps"]
    return max((clips for clips in steps if clips != "0"), key=steps.__getitem__)


def _of_fp8(h200: dict[str, Any]) -> str:
    """Say by how much FP8 changes the log-probabilities of a prompt's tokens."""
    agreement, prompts = h200["fp8Cache"]["agreement"], h200["fp8Cache"]["prompts"]
    return (
        f"- With `fp8` and `fp8Cache`, {agreement['sameAnswers']} of {agreement['compared']} greedy answers of 32 "
        f"tokens are the same as in 16-bit, and {agreement['sameFirstToken']} first tokens. The log-probabilities of "
        f"{prompts['tokens']} tokens of questions, after the clips, differ by {prompts['mean']:.2f} in the mean and "
        f"{prompts['largest']:.2f} at most; their standard deviation is "
        f"{h200['bf16']['answers']['questionSpread']:.2f}."
    )


def _of_graphs(h200: dict[str, Any]) -> str:
    """Say what is known of the CUDA graphs that our server does not capture."""
    first, other = steady_passes(h200["bf16"]), steady_passes(h200["otherGpu"]["bf16"])
    [with_all] = steady_passes(h200["otherGpu"]["graphs"])
    gain = with_all["perSecond"] / max(one["perSecond"] for one in other)
    spread = first[-1]["perSecond"] / first[0]["perSecond"]
    cores = sum(with_all["cpuSeconds"].values()) / sum(other[-1]["cpuSeconds"].values())
    return (
        f"- With all of vLLM's CUDA graphs one pass was {gain:.3f} times as fast as the faster of the two before it. "
        "By [vLLM's scheduler](#answers-that-vllm-interrupts) no step uses the graphs that our server leaves out. The "
        f"two passes on the first GPU differ by {spread:.3f} times, and the processes took only {cores:.2f} of the CPU "
        "time that they took in the pass before, as if the cores had been faster. Whether these graphs help is not "
        "known."
    )


def goals(
    h100: dict[str, Any],
    newest: dict[str, Any],
    shipped: dict[str, Any],
    threads: dict[str, Any],
    h200: dict[str, Any],
) -> str:
    """Return which goals are met, by two runs on H100 and four on H200."""
    exact, in_fp8 = ([steady_rate(run, name) for run in (h100, newest)] for name in ("bf16", "fp8Cache"))
    rates = [one["perSecond"] for session in sessions_with_processes(shipped) for one in steady_passes(session)]
    return f"""| goal | measured | |
|---|---|---|
| at least {RATES["bf16"]} clips per second, 16-bit, on an H100 | {exact[0]:.2f} on one H100 and {exact[1]:.2f} on \
another, with [all jobs prepared at once](#the-start-of-a-queue); no pass of 1,000 since; on two H200 \
{listed(rates, 2)} | {_met(max(exact) >= RATES["bf16"])} |
| at least {RATES["fp8"]} clips per second, FP8, on an H100 | {in_fp8[0]:.2f} on one H100 and {in_fp8[1]:.2f} on \
another, with `fp8` and `fp8Cache`; no pass of 1,000 since; on an H200 {steady_rate(h200, "fp8Cache"):.2f}, decoding \
in threads | {_met(max(in_fp8) >= RATES["fp8"])} |
{_goal_of_busy_gpu(shipped, [*in_16_bit(threads), *in_16_bit(h200)])}
{_goal_of_raw(shipped, h200)}
{_goal_of_large_clips(threads["bf16"], h200)}
| start with kept caches to the first answer about a clip, at most {start_page.START_GOAL} of commit \
{start_page.OLDER_COMMIT}'s | {start_page.ratio():.2f} | {_met(start_page.ratio() <= start_page.START_GOAL)} |
| the same until it can be asked | {start_page.ratio_until_ready():.2f} | \
{_met(start_page.ratio_until_ready() <= start_page.START_GOAL)} |
{_goal_of_processes(stored(PROCESSES))}"""


def _goal_of_busy_gpu(shipped: dict[str, Any], with_threads: list[dict[str, Any]]) -> str:
    """Return the row of how busy the GPU is in a pass, as it ships and with the commits before."""
    passes, before = (
        [one for session in sessions for one in steady_passes(session)]
        for sessions in (sessions_with_processes(shipped), with_threads)
    )
    whole, earlier = (sorted(one["gpu"]["busy"] for one in some) for some in (passes, before))
    middle = [one["gpuSteady"]["busy"] for one in passes]
    return (
        f"| GPU busy at least {BUSY} % in a steady state, 16-bit, on an H200 | {listed(whole, 1)} % with the ends, "
        f"which decide, in a pass on F and one on E, {listed(middle, 1)} % in the middle 70 %; with threads "
        f"{earlier[0]:.1f} to {earlier[-1]:.1f} % in {len(before)} passes | {_met(min(whole) >= BUSY)} |"
    )


def _goal_of_raw(shipped: dict[str, Any], h200: dict[str, Any]) -> str:
    """Return the row of our worker beside raw vLLM on the same GPU."""
    ratio = steady_rate(shipped, "bf16") / rate_of_raw(shipped)
    earlier = max(one["perSecond"] for one in steady_passes(h200["bf16"])) / rate_of_raw(h200)
    spread = rate_of_raw(h200) / min(rates_of_raw(h200))
    return (
        f"| faster than raw vLLM in the same run on the same host, by more than its passes differ | {ratio:.3f} times "
        f"the rate, by one pass of {shipped['workload']['clips']:,} clips each on one GPU; with threads, at commit "
        f"{h200['commit']}, {earlier:.3f} times by the faster of two each, where those of raw vLLM differed by "
        f"{spread:.3f} times | {_met(ratio > spread)} |"
    )


def _goal_of_large_clips(session: dict[str, Any], h200: dict[str, Any]) -> str:
    cpu, many, few = (large_page.rates(session, of) for of in large_page.DECODERS)
    shares = large_page.shares_of_few_cores(session)
    before = large_page.shares_of_few_cores(h200["otherGpu"]["bf16"])
    return (
        f"| 1920 x 1080: with 4 cores at least {OF_ALL_CORES} of the rate with 16, on an H200 | with `gpuDecode` "
        f"{listed(few, 2)} clips per second with 4 and {listed(many, 2)} with 16, {listed(shares, 3)} by the first of "
        f"these; at commit {h200['commit']} on another host {listed(before, 3)}; without it {listed(cpu, 2)} with 16, "
        "and 4 not measured. Since then fewer files are decoded at once and CPU time goes to vLLM first; not measured "
        f"yet | {_met(min(shares) >= OF_ALL_CORES)} |"
    )


def _goal_of_processes(found: dict[str, Any]) -> str:
    times = _of_processes(found)
    return (
        f"| at least {OF_PROCESSES} times the clips of a process for each clip, commit {found['commit']} | "
        f"{times:.0f} times: two processes of raw vLLM took {listed([one['process'] for one in found['process']], 1)} "
        "s, with what vLLM had compiled before, packages in bytecode, and files in the page cache | "
        f"{_met(times >= OF_PROCESSES)} |"
    )


def _of_processes(found: dict[str, Any]) -> float:
    """Return how many clips a worker answers in the time of a process that answers one."""
    return steady_rate(found, "bf16") * fmean(one["process"] for one in found["process"])


def _met(met: bool) -> str:
    return "met" if met else "**not met**"
