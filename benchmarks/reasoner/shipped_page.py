"""Write the part of the reasoner's section with which it begins: its rates as it ships, and which goals they meet."""

from statistics import fmean
from typing import Any

from benchmarks.paragraphs import filled, listed
from benchmarks.reasoner import large_page, start_page
from benchmarks.reasoner.gpu_results import (
    PROCESSES,
    in_16_bit,
    rate_of_raw,
    rates_of_raw,
    ready_passes,
    steady_passes,
    steady_rate,
)
from benchmarks.results import stored

RATES = {"bf16": 15, "fp8": 20}  # goals, in clips per second of a steady state on an H100
OF_PROCESSES = 600  # goal: the rate of our worker relative to that of a process for each clip
CHANCE = 1.02  # two single passes whose rates differ by less are counted as equal
BUSY, OF_ALL_CORES = 95, 0.9  # goals: percent of the time, and the rate with four cores relative to that with sixteen


def as_it_ships(shipped: dict[str, Any], h200: dict[str, Any], before: list[dict[str, Any]]) -> str:
    """Return the rates with what is in the images, and those of raw vLLM beside earlier commits."""
    exact, other, load = h200["bf16"], h200["otherGpu"], h200["workload"]
    of_few, steady = other["bf16"]["ready 0"], exact["steady"]
    sessions = [*in_16_bit(shipped), *in_16_bit(h200)]
    about = filled(
        f"Measured {h200['day']} on {h200['machine']}, vLLM {h200['vllm']}, torch {h200['torch']}, as the lock of the "
        f"image has them: random weights in the true {load['shape'].upper()} shape, {of_few['clips']} "
        f"different clips of four seconds at 640 x 480, for each {round(of_few['promptTokens']):,} tokens "
        f"of prompt and {load['tokens']} of answer. A pass of {steady['clips']:,} asks about the same clips several "
        "times, with other system prompts. Each of the hosts A to D has two such GPUs, with 16 cores each, which ran "
        "benchmarks at the same time.",
    )
    return f"""{about}

| | clips per second, {steady["clips"]:,} clips | {of_few["clips"]} clips | GPU busy | clock, power |
|---|---|---|---|---|
| D, first GPU: our worker, 16-bit, commit {shipped["commit"]} | {_of_passes(shipped["bf16"])} |
| D, second GPU: the same | {_of_passes(shipped["otherGpu"]["bf16"])} |
| A, first GPU: our worker, 16-bit, commit {h200["commit"]} | {_of_passes(exact)} |
| A, first GPU, before: raw vLLM, `LLM.generate`, 16-bit | {listed(rates_of_raw(h200), 2)} | | | |
| A, second GPU: our worker, 16-bit | {_of_passes(other["bf16"])} |
| A, second GPU, after: the same, with all of vLLM's CUDA graphs | {_of_passes(other["graphs"])} |
| A, first GPU: our worker, `fp8` and `fp8Cache` | {_of_passes(h200["fp8Cache"])} |
{chr(10).join(_beside_raw(host, run) for host, run in zip("BC", before, strict=True))}

- Our rates are those of the whole worker, from the queue to the callback. All clips are sent at once: the GPU waits for
  the first of them, and ends with few. `LLM.generate` gets all prompts at once, with frames that were decoded before
  its time begins.
- "GPU busy", clock and power are means over the middle 70 % of the longer pass, from `nvidia-smi`. The limit of power
  is 700 W, the highest clock 1,980 MHz.
{filled(_of_the_cores(sessions), subsequent_indent="  ")}
- {_same_answers([shipped["bf16"], exact, other["bf16"], h200["fp8Cache"]])} greedy answers of hosts A and D are the \
same with our patches and with vLLM's.
{filled(_of_fp8(h200), subsequent_indent="  ")}
{filled(_of_graphs(h200), subsequent_indent="  ")}
- vLLM finds no CUDA compiler in our image, and did not find the machine's."""


def _beside_raw(host: str, found: dict[str, Any]) -> str:
    """Return the rows of an earlier run in 16-bit: of our worker, and of raw vLLM on the host's other GPU."""
    return f"""| {host}, first GPU: our worker, 16-bit, commit {found["commit"]} | {_of_passes(found["bf16"])} |
| {host}, second GPU: raw vLLM, 16-bit | {listed(rates_of_raw(found), 2)} | | | |"""


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


def _of_the_cores(sessions: list[dict[str, Any]]) -> str:
    """Say how much the cores did in passes of 1,000 clips, and how busy the GPU was meanwhile."""
    passes = sorted((one for session in sessions for one in steady_passes(session)), key=_share_of_engine)
    shares = [100 * _share_of_engine(one) for one in passes]
    of_clip = sorted(sum(one["cpuSeconds"].values()) / one["clips"] for one in passes)
    return (
        f"- In the {len(passes)} passes of our worker in 16-bit on A and D, a clip took all processes {of_clip[0]:.2f} "
        f"to {of_clip[-1]:.2f} s of CPU time. It differs from pass to pass, also on one GPU with one commit; why was "
        f"not looked into. The CPU time of vLLM's engine process, of all its threads, was {shares[0]:.0f} to "
        f"{shares[-1]:.0f} % of the pass's time. The GPU was busy for {passes[0]['gpu']['busy']:.1f} % of the pass "
        f"with the smallest share, for {passes[-1]['gpu']['busy']:.1f} % of that with the largest, and in between "
        "mostly for less where the share was larger. That fits a GPU that waits for this process, one thread of which "
        "prepares all its steps; but no profile was taken."
    )


def _share_of_engine(one: dict[str, Any]) -> float:
    """Return the CPU time of vLLM's engine process in a pass, relative to the pass's time."""
    return float(one["cpuSeconds"]["engine"] / one["seconds"])


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
    h200: dict[str, Any],
    before: list[dict[str, Any]],
) -> str:
    """Return which goals are met, by two runs on H100 and four on H200."""
    exact, in_fp8 = ([steady_rate(run, name) for run in (h100, newest)] for name in ("bf16", "fp8Cache"))
    newer = [*in_16_bit(shipped), *in_16_bit(h200)]
    passes = [one for session in (*newer, *(run["bf16"] for run in before)) for one in steady_passes(session)]
    rates = [one["perSecond"] for session in newer for one in steady_passes(session)]
    middle, whole = (sorted(one[part]["busy"] for one in passes) for part in ("gpuSteady", "gpu"))
    return f"""| goal | measured | |
|---|---|---|
| at least {RATES["bf16"]} clips per second, 16-bit, on an H100 | {exact[0]:.2f} on one H100 and {exact[1]:.2f} on \
another, with [all jobs prepared at once](#the-start-of-a-queue); no pass of 1,000 since; on an H200 \
{min(rates):.2f} to {max(rates):.2f} | {_met(max(exact) >= RATES["bf16"])} |
| at least {RATES["fp8"]} clips per second, FP8, on an H100 | {in_fp8[0]:.2f} on one H100 and {in_fp8[1]:.2f} on \
another, with `fp8` and `fp8Cache`; no pass of 1,000 since; on an H200 {steady_rate(h200, "fp8Cache"):.2f} | \
{_met(max(in_fp8) >= RATES["fp8"])} |
| GPU busy at least {BUSY} % in a steady state, 16-bit, on an H200 | {middle[0]:.1f} to {middle[-1]:.1f} % in the \
middle 70 % of {len(passes)} passes, {whole[0]:.1f} to {whole[-1]:.1f} % with the ends, which decide | \
{_met(min(whole) >= BUSY)} |
{_goal_of_raw(h200, before)}
{_goal_of_large_clips(shipped["bf16"], h200)}
| start with kept caches to the first answer about a clip, at most {start_page.START_GOAL} of commit \
{start_page.OLDER_COMMIT}'s | {start_page.ratio():.2f} | {_met(start_page.ratio() <= start_page.START_GOAL)} |
| the same until it can be asked | {start_page.ratio_until_ready():.2f} | \
{_met(start_page.ratio_until_ready() <= start_page.START_GOAL)} |
{_goal_of_processes(stored(PROCESSES))}"""


def _goal_of_raw(h200: dict[str, Any], before: list[dict[str, Any]]) -> str:
    """Return the row of our worker beside raw vLLM: on one GPU, and of two runs with each on a GPU of its own."""
    ours, clips = steady_passes(h200["bf16"]), h200["workload"]["clips"]
    fastest = max(one["perSecond"] for one in ours) / rate_of_raw(h200)
    together = fmean(one["seconds"] for one in h200["raw"]["passes"]) / fmean(one["seconds"] for one in ours)
    ratios = [steady_rate(run, "bf16") / rate_of_raw(run) for run in before]
    return (
        f"| faster than raw vLLM in the same run on the same host | at commit {h200['commit']} on one GPU "
        f"{together:.2f} times the rate, by two passes of {clips:,} clips each, and {fastest:.3f} times by the fastest "
        f"of each; in two earlier runs, with each on a GPU of its own, {listed(ratios, 3)} times its fastest, so that "
        f"no difference can be told | {_met(min(fastest, *ratios) > CHANCE)} |"
    )


def _goal_of_large_clips(session: dict[str, Any], h200: dict[str, Any]) -> str:
    cpu, many, few = (large_page.rates(session, of) for of in large_page.DECODERS)
    shares = large_page.shares_of_few_cores(session)
    before = large_page.shares_of_few_cores(h200["otherGpu"]["bf16"])
    return (
        f"| 1920 x 1080: with 4 cores at least {OF_ALL_CORES} of the rate with 16, on an H200 | with `gpuDecode` "
        f"{listed(few, 2)} clips per second with 4 and {listed(many, 2)} with 16, {listed(shares, 3)} by the first of "
        f"these; at commit {h200['commit']} on another host {listed(before, 3)}; without it {listed(cpu, 2)} with 16, "
        f"and 4 not measured | {_met(min(shares) >= OF_ALL_CORES)} |"
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
