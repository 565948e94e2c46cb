"""The results of the reasoner with vLLM on GPUs: their files, and the passes and rates in them.

A result has a session for each precision, such as `bf16`, and may have those of a second GPU of its host (`otherGpu`).
One of `benchmarks.reasoner.turns` has `rounds`, in each of which our worker and raw vLLM had the GPU in turn.
"""

from typing import Any

from benchmarks.results import FOLDER
from cosmos_batch.worker.loop import PREPARED_AT_ONCE

RESULT = FOLDER / "reasoner-gpu-2b.json"  # our patches beside those that vLLM cuts
ON_H100 = FOLDER / "reasoner-gpu-2b-h100-pair.json"  # of a later day, with the vision encoder compiled
NEWEST = FOLDER / "reasoner-gpu-2b-h100-four.json"  # with a part of the room for answers that grow kept free
QUEUED_ON_H200 = FOLDER / "reasoner-gpu-2b-h200-four.json"  # passes with different numbers of jobs prepared, and FP8
ON_H200 = FOLDER / "reasoner-gpu-2b-h200.json"  # an earlier commit: FP8 beside 16-bit, and all of vLLM's CUDA graphs
SHIPPED_ON_H200 = FOLDER / "reasoner-gpu-2b-h200-turns.json"  # as it ships: in turn with raw vLLM, FP8, large clips
FP8_TURNS = FOLDER / "reasoner-gpu-2b-h200-fp8-turns.json"  # in turn with raw vLLM in FP8, on a fifth host
FP8_THREE_TURNS = FOLDER / "reasoner-gpu-2b-h200-fp8-three-turns.json"  # the same on a sixth host
LARGE_ON_H200 = FOLDER / "reasoner-gpu-2b-h200-large.json"  # on that host's other GPU: large clips, shorter steps
HOSTS_WITH_H200 = FOLDER / "reasoner-gpu-2b-h200-hosts.json"  # a pass on each of two other hosts
STEPS = FOLDER / "engine-steps.json"  # what vLLM's engine did with requests from threads, and from processes
PROCESSES = FOLDER / "reasoner-gpu-2b-h200-pair.json"  # a process of raw vLLM for each clip
EIGHT = FOLDER / "reasoner-gpu-8b.json"
TWO_GPUS = FOLDER / "reasoner-gpu-32b.json"
FULL_GPU = FOLDER / "reasoner-full-gpu.json"
PREPARED_ON_H100 = FOLDER / "reasoner-gpu-2b-h100-prepared.json"  # passes with different numbers of jobs prepared
PREPARED_ON_H200 = FOLDER / "reasoner-gpu-2b-h200-prepared.json"  # the same, since processes prepare the requests

_PARTS = {
    "worker": "the worker",
    "preparation": "the processes that prepare requests",
    "server": "vLLM's server",
    "engine": "its engine",
}
FIRST_SECONDS = 10  # of a pass, in which the engine's places are filled


def turns(shipped: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the passes of 1,000 clips that our worker made in turn with raw vLLM."""
    return [one["worker"]["steady"] for one in shipped["rounds"]]


def rates_in_turn(shipped: dict[str, Any]) -> tuple[list[float], list[float]]:
    """Return the clips per second of our worker and of raw vLLM, in the order of their rounds."""
    raw = [float(shipped["clips"] / one["raw"]["passes"][0]["seconds"]) for one in shipped["rounds"]]
    return [float(one["perSecond"]) for one in turns(shipped)], raw


def steady_passes(session: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a session's passes of 1,000 clips."""
    return [session[step] for step in session if step.startswith("steady")]


def passes_of_hosts(hosts: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the passes of 1,000 clips in 16-bit on the second and the third host, one each."""
    return [one["steady"] for one in (hosts["bf16"], hosts["before"]["bf16"])]


def passes_prepared(session: dict[str, Any], jobs: int) -> list[dict[str, Any]]:
    """Return a session's passes in which the worker prepared so many jobs at once."""
    return [session[step] for step in session if step.partition(",")[0] == f"prepared {jobs}"]


def passes_as_shipped(prepared: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the passes of the fourth host in which the worker prepared as many jobs at once as it ships with."""
    return passes_prepared(prepared["bf16"], PREPARED_AT_ONCE)


def cpu_seconds_of_clip(one: dict[str, Any]) -> dict[str, float]:
    """Return the CPU seconds that a clip of a pass took in the mean, by the process that took them."""
    return {name: cpu / one["clips"] for name, cpu in one["cpuSeconds"].items()}


def cpu_parts(one: dict[str, Any], digits: int) -> str:
    """Return how the CPU seconds of a clip of a pass are divided; without those that no process took."""
    of_clip = cpu_seconds_of_clip(one)
    return ", ".join(f"{of_clip[part]:.{digits}f} {words}" for part, words in _PARTS.items() if of_clip.get(part))


def busy_seconds(one: dict[str, Any]) -> float:
    """Return for how long the GPU was busy in a pass."""
    return float(one["seconds"] * one["gpu"]["busy"] / 100)


def idle_seconds(one: dict[str, Any]) -> tuple[float, float, float]:
    """Return for how long the GPU had nothing to do at the beginning of a pass, between, and in its last seconds."""
    last, idle = int(one["seconds"]) - 1, [1 - busy / 100 for busy in one["gpuBusyBySecond"]]
    at_the_end = one["seconds"] - last - sum(one["gpuBusyBySecond"][last:]) / 100
    return sum(idle[:FIRST_SECONDS]), sum(idle[FIRST_SECONDS:last]), at_the_end


def ready_passes(session: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a session's passes over each clip once."""
    return [session[step] for step in session if step.startswith("ready")]


def best(found: dict[str, Any]) -> float:
    """Return the best rate of all clips at once."""
    return max(float(one["perSecond"]) for one in ready_passes(found))


def rate_of_raw(found: dict[str, Any]) -> float:
    """Return the clips per second of `LLM.generate` in its fastest pass."""
    return max(rates_of_raw(found))


def rates_of_raw(found: dict[str, Any]) -> list[float]:
    """Return the clips per second of each pass of `LLM.generate`."""
    return [float(found["workload"]["clips"] / one["seconds"]) for one in found["raw"]["passes"]]


def steady_rate(found: dict[str, Any], name: str) -> float:
    """Return the clips per second of the first pass of 1,000 clips in a session."""
    return float(found[name]["steady"]["perSecond"])
