"""Write the part of the reasoner's section with which it begins: its rates as it ships, and which goals they meet."""

from statistics import fmean
from typing import Any

from benchmarks.paragraphs import filled, listed
from benchmarks.reasoner import large_page, start_page
from benchmarks.reasoner.gpu_results import (
    FIRST_SECONDS,
    FP8_THREE_TURNS,
    FP8_TURNS,
    LARGE_ON_H200,
    PROCESSES,
    STEPS,
    cpu_parts,
    cpu_seconds_of_clip,
    idle_seconds,
    passes_of_hosts,
    passes_prepared,
    rate_of_raw,
    rates_in_turn,
    steady_passes,
    steady_rate,
    turns,
)
from benchmarks.results import stored
from cosmos_batch.engines.reasoner.vllm.command import WATERMARK, VllmPlan
from cosmos_batch.worker.loop import PREPARED_AT_ONCE

RATES = {"bf16": 15, "fp8": 20}  # goals, in clips per second of a steady state on an H100
OF_PROCESSES = 600  # goal: the rate of our worker relative to that of a process for each clip
BUSY, OF_ALL_CORES = 95, 0.9  # goals: percent of the time, and the rate with four cores relative to that with sixteen
_OF_RAW = (
    "- Raw vLLM has the worker's length of context, at most 256 requests at once, and no cache of processed media. "
    "Otherwise it has vLLM's defaults, as a script has: one thread prepares all media, within the measured time; its "
    "vision encoder is not compiled, as ours is; it captures all CUDA graphs; and it keeps no room free for answers "
    f"that grow, where our server keeps {WATERMARK:.0%}."
)


def as_it_ships(shipped: dict[str, Any], hosts: dict[str, Any], prepared: dict[str, Any], h200: dict[str, Any]) -> str:
    """Return the rates with what is in the images, and those of raw vLLM on the same GPUs."""
    passes, (_, raw) = turns(shipped), rates_in_turn(shipped)
    in_fp8, three_in_fp8, large = (stored(path) for path in (FP8_TURNS, FP8_THREE_TURNS, LARGE_ON_H200))
    few = hosts["before"]["bf16"]["ready 0"]
    about = filled(
        f"Measured {shipped['day']} on {shipped['machine']}, vLLM {shipped['vllm']}, torch {shipped['torch']}. In all "
        "runs of this section Python's packages are those of the image's lock, except NVIDIA's libraries (CUDA, cuDNN, "
        f"NCCL), which were the machine's. Random weights in the true {shipped['shape'].upper()} shape, {few['clips']} "
        f"different clips of four seconds at 640 x 480, for each about {round(passes[0]['promptTokens'], -2):,.0f} "
        "tokens of prompt "
        f"and {passes[0]['tokens']:.0f} of answer. A pass of {shipped['clips']:,} asks about the same clips several "
        f"times, with other system prompts. Two other hosts, of {hosts['day']}, have the same GPU, with as many cores. "
        "The third has two such GPUs, of which the other ran another benchmark meanwhile. Its code was commit "
        f"{hosts['before']['commit']} with changes that had not been committed yet, by which processes prepare the "
        "requests, and a temporary change that noted each step of vLLM's engine. Its pass counts in the goals below "
        f"all the same. On a fourth, of {prepared['day']}, all clips of a pass are different, and prompts have about "
        f"{_passes_as_shipped(prepared)[0]['promptTokens'] - passes[0]['promptTokens']:.0f} tokens more. A fifth, of "
        f"{in_fp8['day']}, ran in FP8 alone: raw vLLM had the GPU first, with keys and values in FP8 too. A sixth, of "
        f"{three_in_fp8['day']}, has two such GPUs, with 16 cores for each: the one had FP8 in turn with raw vLLM, the "
        "other one 16-bit meanwhile.",
    )
    return f"""{about}

| | clips per second, {shipped["clips"]:,} clips | GPU busy, whole pass | GPU busy, middle 70 % | clock, power |
|---|---|---|---|---|
| our worker, 16-bit, commit {shipped["commit"]} | {_of_passes(passes)} |
| in turn with it: raw vLLM, `LLM.generate`, 16-bit | {listed(raw, 2)} | | | |
| our worker, `fp8` and `fp8Cache` | {_of_passes(steady_passes(shipped["fp8Cache"]))} |
| second host: our worker, 16-bit, commit {hosts["commit"]} | {_of_passes(passes_of_hosts(hosts)[:1])} |
| second host, before: raw vLLM | {rate_of_raw(hosts):.2f} | | | |
| third host: our worker, 16-bit, commit {hosts["before"]["commit"]} with the changes named above | \
{_of_passes(passes_of_hosts(hosts)[1:])} |
| fourth host: our worker, 16-bit, commit {prepared["commit"]} | {_of_passes(_passes_as_shipped(prepared))} |
| fifth host: our worker, `fp8` and `fp8Cache`, commit {in_fp8["commit"]} | {_of_passes(turns(in_fp8))} |
| in turn with it: raw vLLM, `LLM.generate`, the same in FP8 | {listed(rates_in_turn(in_fp8)[1], 2)} | | | |
| sixth host: our worker, `fp8` and `fp8Cache`, commit {three_in_fp8["commit"]} | {_of_passes(turns(three_in_fp8))} |
| in turn with it: raw vLLM, `LLM.generate`, the same in FP8 | {listed(rates_in_turn(three_in_fp8)[1], 2)} | | | |
| sixth host, other GPU: our worker, 16-bit, commit {large["commit"]} | {_of_passes(steady_passes(large["bf16"]))} |
| the same with `--max-num-batched-tokens 8192` | {_of_passes(steady_passes(large["tokens8192"]))} |

- Our rates are those of the whole worker, from the queue to the callback. All clips are sent at once: the GPU waits for
  the first of them, and ends with few. `LLM.generate` gets all prompts at once, with frames that were decoded before
  its time begins. A pass of {few["clips"]} clips, which was made on the third host alone, had {few["perSecond"]:.2f} \
a second.
- How busy the GPU is comes from `nvidia-smi`: a whole pass is from the sending of the clips to the last report. Clock
  and power are those of the middle 70 % of that time. The limit of power is 700 W, the highest clock 1,980 MHz.
{filled(_OF_RAW, subsequent_indent="  ")}
{filled(_of_idle_seconds(shipped), subsequent_indent="  ")}
{filled(_of_cores(passes[-1]), subsequent_indent="  ")}
{filled(_of_steps(stored(STEPS)), subsequent_indent="  ")}
{filled(_of_same_answers(shipped, h200), subsequent_indent="  ")}
{filled(_of_fp8(h200), subsequent_indent="  ")}
{filled(_of_graphs(h200), subsequent_indent="  ")}
{filled(_of_shorter_steps(large), subsequent_indent="  ")}
- vLLM finds no CUDA compiler in our image, and did not find the machine's."""


def _passes_as_shipped(prepared: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the passes of the fourth host in which the worker prepared as many jobs at once as it ships with."""
    return passes_prepared(prepared["bf16"], PREPARED_AT_ONCE)


def _of_passes(passes: list[dict[str, Any]]) -> str:
    """Return the cells of passes of 1,000 clips: their rates, and what the GPU did."""
    busy, middle = (listed((one[part]["busy"] for one in passes), 1) for part in ("gpu", "gpuSteady"))
    clock, power = (fmean(one["gpuSteady"][of] for one in passes) for of in ("megahertz", "watts"))
    rates = listed((one["perSecond"] for one in passes), 2)
    return f"{rates} | {busy} % | {middle} % | {clock:,.0f} MHz, {power:.0f} W"


def _of_same_answers(shipped: dict[str, Any], h200: dict[str, Any]) -> str:
    """Say how many answers are the same with our patches and with those that vLLM cuts."""
    exact = _same_answers([h200["bf16"], h200["otherGpu"]["bf16"]])
    return (
        f"- {_same_answers([shipped['fp8Cache']])} greedy answers in FP8 are the same with our patches and with "
        f"vLLM's. At commit {h200['commit']} {_same_answers([h200['fp8Cache']])} were, and {exact} in 16-bit. Since "
        "processes prepare the requests, those in 16-bit were compared by the tests alone, on the CPU."
    )


def _same_answers(sessions: list[dict[str, Any]]) -> str:
    same, compared = (sum(one["answers"][of] for one in sessions) for of in ("sameAnswers", "compared"))
    return f"{same} of {compared}"


def _of_idle_seconds(shipped: dict[str, Any]) -> str:
    """Say when the GPU had nothing to do in the passes in turn with raw vLLM."""
    passes = turns(shipped)
    first, middle, last = (listed(part, 1) for part in zip(*map(idle_seconds, passes), strict=True))
    return (
        f"- The three passes in turn with raw vLLM took {listed((one['seconds'] for one in passes), 1)} s. The GPU had "
        f"nothing to do for {first} s of the first {FIRST_SECONDS}, for {last} s at the end, when the worker reports "
        f"the last answers, and for {middle} s between. Only in the first did it wait all along; why is not known. "
        "That pass was made by a process which had compiled the model itself, but so were those on the other hosts, "
        "and raw vLLM had its fastest pass in such a process."
    )


def _of_cores(one: dict[str, Any]) -> str:
    """Say what a clip takes of the cores."""
    seconds = sum(cpu_seconds_of_clip(one).values())
    return f"- A clip took all processes {seconds:.2f} s of CPU time: {cpu_parts(one, 3)}."


def _of_steps(found: dict[str, Any]) -> str:
    """Say why the GPU waited for clips from threads, and not for those from processes."""
    threads, processes, gaps = found["threads"], found["processes"], found["gapsWithThreads"]
    return (
        "- In a run of each kind each step of vLLM's engine was noted, by a temporary change of our server's program "
        "that is not in the repository, so no command makes these figures. At the start of a pass "
        f"{threads['firstClipsPerSecond']:.0f} clips a second reached it from threads, and "
        f"{processes['firstClipsPerSecond']:.0f} from processes. All answers are equally long, so clips "
        f"that begin in one step end in one step, and as many new ones begin then: mostly {_usual_clips(threads)} with "
        f"threads, {_usual_clips(processes)} with processes. Before a step with new clips the engine's thread "
        "schedules them, and joins their patches in memory that the GPU can read; with many of them that takes longer "
        "than the GPU works at the step before. So it had nothing to do for "
        f"{100 * gaps['all'] / gaps['span']:.1f} % of "
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
        f"- With `fp8` and `fp8Cache`, at commit {h200['commit']}, {agreement['sameAnswers']} of "
        f"{agreement['compared']} greedy answers of 32 tokens are the same as in 16-bit, and "
        f"{agreement['sameFirstToken']} first tokens. The log-probabilities of {prompts['tokens']} tokens of "
        f"questions, after the clips, differ by {prompts['mean']:.2f} in the mean and {prompts['largest']:.2f} at "
        f"most; their standard deviation is {h200['bf16']['answers']['questionSpread']:.2f}."
    )


def _of_graphs(h200: dict[str, Any]) -> str:
    """Say what is known of the CUDA graphs that our server does not capture."""
    before = steady_passes(h200["otherGpu"]["bf16"])
    [with_all] = steady_passes(h200["otherGpu"]["graphs"])
    of_both = [sum(one["cpuSeconds"].values()) for one in (with_all, before[-1])]
    return (
        f"- With all of vLLM's CUDA graphs, at commit {h200['commit']} on another H200, one pass of 1,000 clips had a "
        f"rate of {with_all['perSecond']:.2f}, after {listed((one['perSecond'] for one in before), 2)} without. By "
        "[vLLM's scheduler](#answers-that-vllm-interrupts) no step uses the graphs that our server leaves out, and the "
        f"processes took only {of_both[0] / of_both[1]:.2f} of the CPU time that they took in the pass before, as if "
        "the cores had been faster. Whether these graphs help is not known."
    )


def _of_shorter_steps(large: dict[str, Any]) -> str:
    """Say what steps with half as many new clips gain."""
    [usual], [shorter] = (steady_passes(large[name]) for name in ("bf16", "tokens8192"))
    return (
        f"- With at most 8,192 tokens in a step of vLLM's in place of {VllmPlan.step_tokens:,}, so with at most half "
        f"as many new clips, {shorter['perSecond'] / usual['perSecond']:.2f} of the rate was reached, by one pass of "
        f"each on the same GPU, which was busy for {shorter['gpu']['busy'] - usual['gpu']['busy']:.1f} percentage "
        "points more of the time. So shorter steps do not ship."
    )


def goals(
    h100: dict[str, Any],
    newest: dict[str, Any],
    shipped: dict[str, Any],
    hosts: dict[str, Any],
    prepared: dict[str, Any],
) -> str:
    """Return which goals are met, by two runs on H100 and those on four hosts with H200."""
    on_h100 = (h100, newest)
    exact, in_fp8 = ([steady_rate(run, name) for run in on_h100] for name in ("bf16", "fp8Cache"))
    large, three_in_fp8 = stored(LARGE_ON_H200), stored(FP8_THREE_TURNS)
    others = [*passes_of_hosts(hosts), *_passes_as_shipped(prepared), *steady_passes(large["bf16"])]
    passes_in_fp8 = [*steady_passes(shipped["fp8Cache"]), *turns(stored(FP8_TURNS)), *turns(three_in_fp8)]
    rates_in_fp8 = [one["perSecond"] for one in passes_in_fp8]
    rates = sorted(one["perSecond"] for one in [*turns(shipped), *others])
    return f"""| goal | measured | |
|---|---|---|
| at least {RATES["bf16"]} clips per second, 16-bit, on an H100 | {exact[0]:.2f} on one H100 and {exact[1]:.2f} on \
another, with [all jobs prepared at once](#the-start-of-a-queue); no H100 since; on five H200 {rates[0]:.2f} to \
{rates[-1]:.2f} | {_met(max(exact) >= RATES["bf16"])} |
| at least {RATES["fp8"]} clips per second, FP8, on an H100 | {in_fp8[0]:.2f} on one H100 and {in_fp8[1]:.2f} on \
another, with `fp8` and `fp8Cache`; no H100 since; on three H200 {min(rates_in_fp8):.2f} to {max(rates_in_fp8):.2f} | \
{_met(max(in_fp8) >= RATES["fp8"])} |
{
        _goal_of_busy_gpu(
            [*turns(shipped), *others],
            passes_in_fp8,
            [run["bf16"]["steady"] for run in on_h100],
        )
    }
{_goal_of_raw(shipped, three_in_fp8)}
{_goal_of_large_clips(large["bf16"])}
| start with kept caches to the first answer about a clip, at most {start_page.START_GOAL} of commit \
{start_page.OLDER_COMMIT}'s | {start_page.ratio():.2f} with commit {start_page.commit()}, before processes prepared \
requests; not measured again since | {_met(start_page.ratio() <= start_page.START_GOAL)} |
| the same until the server accepts requests | {start_page.ratio_until_ready():.2f}, in the same starts | \
{_met(start_page.ratio_until_ready() <= start_page.START_GOAL)} |
{_goal_of_processes(stored(PROCESSES))}"""


def _goal_of_busy_gpu(passes: list[dict[str, Any]], in_fp8: list[dict[str, Any]], on_h100: list[dict[str, Any]]) -> str:
    """Return the row of how busy the GPU is in a pass. The whole pass decides, with its start and end."""
    busy, of_fp8, of_h100 = ([one["gpu"]["busy"] for one in those] for those in (passes, in_fp8, on_h100))
    missed = sum(one < BUSY for one in busy)
    return (
        f"| GPU busy at least {BUSY} % in a steady state, counted over whole passes, with their start and end | "
        f"16-bit: {min(busy):.1f} to {max(busy):.1f} % on five H200, below {BUSY} in {missed} of {len(busy)} passes; "
        f"on two H100, with all jobs prepared at once, {listed(of_h100, 1)} %. `fp8` and `fp8Cache`, on three H200: "
        f"{listed(of_fp8, 2)} % | {_met(min([*busy, *of_fp8]) >= BUSY)} |"
    )


def _goal_of_raw(shipped: dict[str, Any], in_fp8: dict[str, Any]) -> str:
    """Return the row of our worker in turn with raw vLLM on the same GPU, in 16-bit and, on another host, in FP8."""
    return (
        "| faster than raw vLLM in the same run on the same GPU, by more than its passes differ | 16-bit, on an H200: "
        f"{_in_turn(shipped)}. FP8, on another H200: {_in_turn(in_fp8)}. Not measured on an H100, since none was "
        f"available | 16-bit on an H200: {_met(_is_faster(shipped))}; FP8 on an H200: {_met(_is_faster(in_fp8))}; "
        "H100: not measured |"
    )


def _in_turn(run: dict[str, Any]) -> str:
    """Say by how much our worker is faster than raw vLLM, and by how much the latter's passes differ."""
    ours, raw = rates_in_turn(run)
    return (
        f"{listed(ours, 2)} in turn with {listed(raw, 2)}: the slowest of ours is {min(ours) / max(raw):.3f} times as "
        f"fast as the fastest of raw vLLM, whose passes differ by {max(raw) / min(raw):.3f} times; by the fastest of "
        f"both it is {max(ours) / max(raw):.3f} times"
    )


def _is_faster(run: dict[str, Any]) -> bool:
    ours, raw = rates_in_turn(run)
    return min(ours) / max(raw) > max(raw) / min(raw)


def _goal_of_large_clips(session: dict[str, Any]) -> str:
    """Return the row of four cores beside sixteen. The fastest way to decode with sixteen decides."""
    cpu, many, few = (one["perSecond"] for one in large_page.passes(session, *large_page.DECODERS))
    return (
        f"| 1920 x 1080: with 4 cores at least {OF_ALL_CORES} of the rate with 16, on an H200 | with `gpuDecode` "
        f"{few:.2f} clips per second with 4 and {many:.2f} with 16: {few / many:.3f}; without it {cpu:.2f} with 16, "
        f"of which the rate with 4 is {few / cpu:.3f}, and 4 not measured; [where the time "
        f"goes](#clips-of-1920-x-1080) | {_met(few / max(many, cpu) >= OF_ALL_CORES)} |"
    )


def _goal_of_processes(found: dict[str, Any]) -> str:
    times, seconds = _of_processes(found), listed([one["process"] for one in found["process"]], 1)
    return (
        f"| at least {OF_PROCESSES} times as many clips as with a new process of vLLM for each, commit "
        f"{found['commit']} | {times:.0f} times: two processes of raw vLLM took {seconds} "
        "s, with what vLLM had compiled before, packages in bytecode, and files in the page cache | "
        f"{_met(times >= OF_PROCESSES)} |"
    )


def _of_processes(found: dict[str, Any]) -> float:
    """Return how many clips a worker answers in the time of a process that answers one."""
    return steady_rate(found, "bf16") * fmean(one["process"] for one in found["process"])


def _met(met: bool) -> str:
    return "met" if met else "**not met**"
