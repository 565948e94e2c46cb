"""Write what a resident worker with a queue of videos takes for each of them, with vLLM-Omni and with Diffusers."""

from typing import Any

from benchmarks.paragraphs import filled
from benchmarks.results import FOLDER, goal_row

OMNI = FOLDER / "generator-modes-nano-queue.json"  # with a transfer and two more modes
DIFFUSERS = FOLDER / "generator-diffusers-nano-queue.json"  # on the other GPU of the same host
PAUSE = 0.3  # goal, in seconds between two jobs
SIZE = "320x192"


def text(results: dict[str, Any], earlier: dict[str, Any]) -> str:
    """Say how many videos a worker made in an hour in two runs, and for how long the GPU had nothing to do."""
    now, before = (one["modes"]["plain"] for one in (results, earlier))
    idle = now["gpuIdleSecondsOfAJob"]
    return filled(
        f"With two jobs in hand a worker took {_range(now['secondsFromEndToEnd'])} s for each video of {SIZE}, from "
        f"the end of one to the end of the next, which is {int(3600 / max(now['secondsFromEndToEnd']))} an hour; the "
        f"generation of one alone takes {_alone(now):.2f} s (measured {results['day']} on {results['machine']}, commit "
        f"{results['commit']}). From the last step of one to the first of the next {_range(_pauses(now))} s passed, in "
        "which the GPU mostly decodes the one video and reads the prompts of the other. It had nothing to do for "
        f"{idle:.2f} s of what a job took, within its steps and between jobs, by `nvidia-smi`. On the host of the "
        f"table with commit {earlier['commit']} each video took {_range(before['secondsFromEndToEnd'])} s and one "
        f"alone {_alone(before):.2f} s, and {_range(_pauses(before))} s passed between steps.",
    )


def goal_rows(*runs: dict[str, Any]) -> str:
    """Return the rows of the pause between two videos, by two readings of it. The longest of all runs decides."""
    plain = [run["modes"]["plain"] for run in runs]
    longest = max(pause for one in plain for pause in _pauses(one))
    idle = [one["gpuIdleSecondsOfAJob"] for one in plain if one.get("gpuIdleSecondsOfAJob") is not None]
    of_steps = f"pause from the last step of a job to the first of the next, on an H200: at most {PAUSE} s"
    of_gpu = f"time of a job in which the GPU has nothing to do, with a queue, on an H200: at most {PAUSE} s"
    return "\n".join([goal_row(of_steps, longest, PAUSE), goal_row(of_gpu, max(idle, default=None), PAUSE)])


def longest_pause(results: dict[str, Any]) -> float:
    """Return the longest time from the last step of a job to the first of the next, in seconds."""
    return max(_pauses(results["modes"]["plain"]))


def _pauses(plain: dict[str, Any]) -> list[float]:
    seconds: list[float] = plain["secondsBetweenLastAndFirstStep"]
    return seconds


def _alone(plain: dict[str, Any]) -> float:
    """Return the seconds of generating a video without another in the engine."""
    return float(plain["kinds"]["t2v"][SIZE]["seconds"]["generate"])


def _range(values: list[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"
