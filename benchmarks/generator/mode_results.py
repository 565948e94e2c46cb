"""The results of `benchmarks.generator.modes`: the seconds in them, and the rows of the tables that show them."""

from pathlib import Path
from typing import Any

from benchmarks.results import stored

EXACT = {"320x192": 6.5, "832x480": 55.0}  # goals, in seconds of a whole job
_SHORT_KINDS = ("t2i", "policy", "forward_dynamics", "inverse_dynamics")
"""Kinds whose files have fewer frames than the videos, so that their own encoding counts."""

HEAD = """| job, size, mode | generation | encoding | whole job | peak | loaded in |
|---|---|---|---|---|---|"""
_NAMES = {
    "plain": "as it ships",
    "seaCache": "`seaCache`",
    "fp8": "FP8",
    "both": "FP8 and `seaCache`",
    "static": "compiled for each size",
    "tp2": "tp 2",
    "cfg2": "cfg 2",
    "cfg2Hsdp": "cfg 2 with HSDP",
}


def read(path: Path) -> dict[str, Any]:
    """Return results without the jobs that failed, such as those of a kind that the engine does not make."""
    results = stored(path)
    for mode in results["modes"].values():
        made = {
            kind: {size: job for size, job in jobs.items() if "error" not in job}
            for kind, jobs in mode["kinds"].items()
        }
        mode["kinds"] = {kind: jobs for kind, jobs in made.items() if jobs}
    return results


def video_seconds(results: dict[str, Any], mode: str, size: str) -> tuple[float, float] | None:
    """Return the seconds of generating a video from text, and of encoding it; None if they were not measured."""
    job = results["modes"].get(mode, {}).get("kinds", {}).get("t2v", {}).get(size)
    return None if job is None else _phases(results, "t2v", size, job)


def _phases(results: dict[str, Any], kind: str, size: str, job: dict[str, Any]) -> tuple[float, float]:
    """Return the seconds of generation and of encoding: of a drawn clip if one was encoded and is as long."""
    own = job["seconds"]["write"]
    return job["seconds"]["generate"], own if kind in _SHORT_KINDS else results["encodingSeconds"].get(size, own)


def generation_seconds(results: dict[str, Any], mode: str, size: str) -> float:
    """Return the seconds of generating a video from text."""
    return float(results["modes"][mode]["kinds"]["t2v"][size]["seconds"]["generate"])


def rows(results: dict[str, Any], engine: str = "") -> str:
    """Return the table's rows: one for each job, with the name of the engine before its mode."""
    lines = []
    for mode, measured in results["modes"].items():
        for kind, jobs in measured["kinds"].items():
            for size, job in jobs.items():
                generation, encoding = _phases(results, kind, size, job)
                peak = "" if job["peakMiB"] is None else f"{job['peakMiB'] / 1024:.1f} GiB"
                lines.append(
                    f"| `{kind}`, {size}, {engine}{_NAMES[mode]} | {generation:.2f} s | {encoding:.2f} s | "
                    f"{generation + encoding:.2f} s | {peak} | {measured['loadedSeconds']:.0f} s |"
                )
    return "\n".join(lines)
