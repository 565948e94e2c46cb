"""Write which goals the reasoner meets as it ships, from the results of all machines."""

from statistics import fmean
from typing import Any

from benchmarks.paragraphs import listed
from benchmarks.reasoner import large_page, start_page
from benchmarks.reasoner.gpu_results import (
    FP8_THREE_TURNS,
    FP8_TURNS,
    LARGE_ON_H200,
    PROCESSES,
    passes_as_shipped,
    passes_of_hosts,
    rates_in_turn,
    steady_passes,
    steady_rate,
    turns,
)
from benchmarks.results import stored

RATES = {"bf16": 15, "fp8": 20}  # goals, in clips per second of a steady state on an H100
OF_PROCESSES = 600  # goal: the rate of our worker relative to that of a process for each clip
BUSY, OF_ALL_CORES = 95, 0.9  # goals: percent of the time, and the rate with four cores relative to that with sixteen


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
    others = [*passes_of_hosts(hosts), *passes_as_shipped(prepared), *steady_passes(large["bf16"])]
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
