"""Write the part of the reasoner's section with which it begins: its rates as it ships."""

from statistics import fmean
from typing import Any

from benchmarks.paragraphs import filled, listed
from benchmarks.reasoner.gpu_results import (
    FIRST_SECONDS,
    FP8_THREE_TURNS,
    FP8_TURNS,
    LARGE_ON_H200,
    STEPS,
    cpu_parts,
    cpu_seconds_of_clip,
    idle_seconds,
    passes_as_shipped,
    passes_of_hosts,
    rate_of_raw,
    rates_in_turn,
    steady_passes,
    turns,
)
from benchmarks.results import stored
from cosmos_batch.engines.reasoner.vllm.command import WATERMARK, VllmPlan

_OF_RAW = (
    "- Raw vLLM has the worker's length of context, at most 256 requests at once, and no cache of processed media. "
    "Otherwise it has vLLM's defaults, as a script has: one thread prepares all media, within the measured time; its "
    "vision encoder is not compiled, as ours is; it captures all CUDA graphs; and it keeps no room free for answers "
    f"that grow, where our server keeps {WATERMARK:.0%}."
)


def as_it_ships(shipped: dict[str, Any], hosts: dict[str, Any], prepared: dict[str, Any], h200: dict[str, Any]) -> str:
    """Return the rates with what is in the images, and those of raw vLLM on the same GPUs."""
    passes = turns(shipped)
    in_fp8, three_in_fp8, large = (stored(path) for path in (FP8_TURNS, FP8_THREE_TURNS, LARGE_ON_H200))
    few = hosts["before"]["bf16"]["ready 0"]
    more_tokens = passes_as_shipped(prepared)[0]["promptTokens"] - passes[0]["promptTokens"]
    about = filled(
        f"Measured on six hosts with {shipped['machine']}, vLLM {shipped['vllm']}, torch {shipped['torch']}; the "
        "third and the sixth have two such GPUs, and 16 cores for each. In all runs of this section Python's packages "
        "are those of the image's lock, except NVIDIA's libraries (CUDA, cuDNN, NCCL), which were the machine's. "
        f"Random weights in the true {shipped['shape'].upper()} shape, {few['clips']} different clips of four seconds "
        f"at 640 x 480, for each about {round(passes[0]['promptTokens'], -2):,.0f} tokens of prompt and "
        f"{passes[0]['tokens']:.0f} of answer. A pass of {shipped['clips']:,} asks about the same clips several times, "
        "with other system prompts.",
    )
    rows = [
        (1, shipped, "16-bit in turn with raw vLLM, three rounds, and FP8 after them"),
        (2, hosts, "raw vLLM, and 16-bit after it"),
        (
            3,
            hosts["before"],
            "16-bit, while the other GPU ran another benchmark; with changes that had not been committed yet, by which "
            "processes prepare the requests, and a temporary one that noted each step of vLLM's engine",
        ),
        (4, prepared, f"16-bit; all clips of a pass are different, with about {more_tokens:.0f} tokens more"),
        (5, in_fp8, "FP8 in turn with raw vLLM, which had the GPU first: one round"),
        (6, three_in_fp8, "FP8 in turn with raw vLLM, three rounds; 16-bit on the other GPU meanwhile"),
    ]
    of_hosts = "\n".join(
        f"| {number} | {found.get('day', hosts['day'])} | {found['commit']} | {what} |" for number, found, what in rows
    )
    return f"""{about}

| host | day | commit | what ran |
|---|---|---|---|
{of_hosts}

In FP8 the modes `fp8` and `fp8Cache` are on, and raw vLLM has the same. The cells have one number for each pass.

| host | | clips per second, {shipped["clips"]:,} clips | GPU busy, whole pass | GPU busy, middle 70 % | clock, power |
|---|---|---|---|---|---|
| 1 | our worker, 16-bit | {_of_passes(passes)} |
| 1 | raw `LLM.generate`, 16-bit | {listed(rates_in_turn(shipped)[1], 2)} | | | |
| 1 | our worker, FP8 | {_of_passes(steady_passes(shipped["fp8Cache"]))} |
| 2 | our worker, 16-bit | {_of_passes(passes_of_hosts(hosts)[:1])} |
| 2 | raw `LLM.generate`, 16-bit | {rate_of_raw(hosts):.2f} | | | |
| 3 | our worker, 16-bit | {_of_passes(passes_of_hosts(hosts)[1:])} |
| 4 | our worker, 16-bit | {_of_passes(passes_as_shipped(prepared))} |
| 5 | our worker, FP8 | {_of_passes(turns(in_fp8))} |
| 5 | raw `LLM.generate`, FP8 | {listed(rates_in_turn(in_fp8)[1], 2)} | | | |
| 6 | our worker, FP8 | {_of_passes(turns(three_in_fp8))} |
| 6 | raw `LLM.generate`, FP8 | {listed(rates_in_turn(three_in_fp8)[1], 2)} | | | |
| 6 | our worker, 16-bit | {_of_passes(steady_passes(large["bf16"]))} |
| 6 | our worker, 16-bit, `--max-num-batched-tokens 8192` | {_of_passes(steady_passes(large["tokens8192"]))} |

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
