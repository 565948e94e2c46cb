"""The results of the reasoner with vLLM on GPUs: their files, and the passes and rates in them.

A result has a session for each precision, such as `bf16`, and may have those of a second GPU of its host (`otherGpu`).
"""

from typing import Any

from benchmarks.results import FOLDER

RESULT = FOLDER / "reasoner-gpu-2b.json"  # our patches beside those that vLLM cuts
ON_H100 = FOLDER / "reasoner-gpu-2b-h100-pair.json"  # of a later day, with the vision encoder compiled
NEWEST = FOLDER / "reasoner-gpu-2b-h100-four.json"  # with a part of the room for answers that grow kept free
QUEUED_ON_H200 = FOLDER / "reasoner-gpu-2b-h200-four.json"  # passes with different numbers of jobs prepared, and FP8
ON_H200 = FOLDER / "reasoner-gpu-2b-h200.json"  # with raw vLLM of as many clips, and FP8, on both GPUs of a host
SHIPPED_ON_H200 = FOLDER / "reasoner-gpu-2b-h200-fe3ac318.json"  # as it ships, with raw vLLM on the same GPU
THREADS_ON_H200 = FOLDER / "reasoner-gpu-2b-h200-f3ec9c69.json"  # with files decoded in threads, on both GPUs of a host
STEPS = FOLDER / "engine-steps.json"  # what vLLM's engine did with requests from threads, and from processes
PROCESSES = FOLDER / "reasoner-gpu-2b-h200-pair.json"  # a process of raw vLLM for each clip
EIGHT = FOLDER / "reasoner-gpu-8b.json"
TWO_GPUS = FOLDER / "reasoner-gpu-32b.json"
FULL_GPU = FOLDER / "reasoner-full-gpu.json"
PREPARED_ON_H100 = FOLDER / "reasoner-gpu-2b-h100-prepared.json"  # the same on an H100


def in_16_bit(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the sessions in 16-bit on both GPUs of a host."""
    return [found["bf16"], found["otherGpu"]["bf16"]]


def steady_passes(session: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a session's passes of 1,000 clips."""
    return [session[step] for step in session if step.startswith("steady")]


def sessions_with_processes(shipped: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the sessions in 16-bit, on two hosts, whose requests were prepared in processes."""
    return [shipped["bf16"], shipped["before"]["bf16"]]


def cpu_seconds_of_clip(one: dict[str, Any]) -> dict[str, float]:
    """Return the CPU seconds that a clip of a pass took in the mean, by the process that took them."""
    return {name: cpu / one["clips"] for name, cpu in one["cpuSeconds"].items()}


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
