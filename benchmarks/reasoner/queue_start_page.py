"""Write the part of the reasoner's section about the start of a queue: how many jobs a worker prepares at once."""

from typing import Any

from benchmarks.paragraphs import filled, listed
from benchmarks.reasoner import large_page
from benchmarks.reasoner.gpu_results import (
    FIRST_SECONDS,
    PREPARED_ON_H100,
    best,
    idle_seconds,
    passes_prepared,
    rate_of_raw,
    steady_rate,
)
from benchmarks.results import stored
from cosmos_batch.worker.loop import PREPARED_AT_ONCE

_ALL = 1000  # jobs prepared at once, more than a worker has
_DIFFERENT_THEN = """In these runs, and in those of 2026-11-28 below:

- The stand-in for SQS gave ten messages at a time, also where the worker asked for one, so that up to nine more jobs
  were prepared. It gives no more than it is asked for since.
- Jobs that had been received more than 0.3 s ago counted too. Since then they do not.
- On the H100 the pass with all was the first after the warm-up, and each step of vLLM's scheduler was noted. Other runs
  on H100s took 20.6 to 21.6 s for such a pass.
- On the H200 the threads of the runs of 2026-11-28 below took turns ten times as often as Python's do by default.
  Passes with and without that took the same time (commit c99093c6)."""


def text(h200: dict[str, Any], in_processes: dict[str, Any]) -> str:
    """Say how many jobs a worker prepares at a time, and what the rates were when that was chosen."""
    exact, in_fp8 = h200["bf16"], h200["fp8Cache"]
    h100 = stored(PREPARED_ON_H100)
    about = filled(
        "A worker fetches the files of jobs in threads that share one lock of Python's, and decoded their clips in "
        "such threads too until commit 23034895. Until commit 1d8e0d84 it received as many jobs as its engine has "
        "places, 272 here, and fetched their files in up to 64 threads at once, so that a thread that decoded waited "
        f"for the lock. Now it prepares {PREPARED_AT_ONCE} at a time. Passes over "
        f"{exact['prepared 8']['clips']} clips in 16 bit, with decoding in threads, one after the "
        f"other in one process on each machine, on {h100['day']}. The GPU counts as busy from the first second of "
        "which it was busy for more than half:",
    )
    rows = ["| jobs prepared at once | H100 | H200 |", "|---|---|---|"]
    for jobs in (_ALL, 16, 8, 4):
        cells = [_pass_from(run["bf16"].get(f"prepared {jobs}")) for run in (h100, h200)]
        rows.append(f"| {'all' if jobs == _ALL else jobs} | {' | '.join(cells)} |")
    rates = filled(
        f"With 8, measured {h200['day']} on {h200['machine']}, while the host's other GPUs ran "
        f"benchmarks: {best(exact):.2f} clips per second of {exact['ready 0']['clips']}, "
        f"{steady_rate(h200, 'bf16'):.2f} of {exact['steady']['clips']:,}, both sent at once and with their ends. Raw "
        f"vLLM on the GPU beside it: {rate_of_raw(h200):.2f} of {h200['workload']['clips']}. "
        f"{exact['answers']['sameAnswers']} of {exact['answers']['compared']} greedy answers are the same with our "
        f"patches and with vLLM's. With `fp8` and `fp8Cache`: {best(in_fp8):.2f} and "
        f"{steady_rate(h200, 'fp8Cache'):.2f}. Between a quarter and seven tenths of the time of 1,000 clips, "
        f"{exact['steady']['perSecondSteady']:.2f} and {in_fp8['steady']['perSecondSteady']:.2f} a second were "
        "answered, by their tokens: clips that began together end together, so the rate rises and falls. Their GPUs "
        f"were busy for {exact['steady']['gpuSteady']['busy']:.1f} % and "
        f"{in_fp8['steady']['gpuSteady']['busy']:.1f} % of the middle 70 %.",
    )
    return "\n".join([about, "", *rows, "", _DIFFERENT_THEN, "", rates, "", _prepared_in_processes(in_processes)])


def _prepared_in_processes(found: dict[str, Any]) -> str:
    """Say what the rates are by the number of jobs prepared at once, since processes prepare the requests."""
    session = found["bf16"]
    order = [step.removeprefix("prepared ").partition(",")[0] for step in session if step.startswith("prepared")]
    about = filled(
        f"Since processes prepare the requests, measured {found['day']} on another H200, commit {found['commit']}: "
        f"passes of {session['prepared 8']['clips']:,} different clips in one process, in this order: "
        f"{', '.join(order)} jobs prepared at once. No pass with more than {PREPARED_AT_ONCE} was faster. On a machine "
        "with 16 cores eight processes prepare requests in any case, so with 16 or 24 jobs more of them wait for the "
        "same eight. Fewer than 8 were not tried. In the first pass of the process the GPU had nothing to do for "
        f"{idle_seconds(session[f'prepared {order[0]}'])[0]:.1f} s of the first {FIRST_SECONDS}; why is not known.",
    )
    rows = [
        f"| jobs prepared at once | clips per second | GPU busy, whole pass | idle in the first {FIRST_SECONDS} s |",
        "|---|---|---|---|",
    ]
    for jobs in (8, 16, 24):
        passes = passes_prepared(session, jobs)
        rows.append(
            f"| {jobs} | {listed((one['perSecond'] for one in passes), 2)} | "
            f"{listed((one['gpu']['busy'] for one in passes), 1)} % | "
            f"{listed((idle_seconds(one)[0] for one in passes), 1)} s |"
        )
    return "\n".join([about, "", *rows])


def _pass_from(one: dict[str, Any] | None) -> str:
    """Return the seconds of a pass, and the first second in which the GPU was busy for more than half."""
    if one is None:
        return ""
    return f"{one['seconds']:.1f} s; GPU busy from second {large_page.busy_from(one) + 1}"
