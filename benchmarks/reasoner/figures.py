"""Figures computed from `benchmarks/results/reasoner-*.json`: rates and their ratios."""

import json
from dataclasses import dataclass
from typing import Any

from benchmarks.results import FOLDER

PARAMETERS = {"2b": 2_127_532_032, "8b": 8_767_123_696}
"""The published numbers of parameters of the shapes."""


@dataclass(frozen=True)
class Rates:
    """Clips per second of a process per clip, of raw vLLM and of our worker; of the last two, the better pass."""

    processes: float
    raw: float
    worker: float

    @property
    def of_raw(self) -> float:
        """Return the ratio of our worker to raw vLLM."""
        return self.worker / self.raw

    @property
    def of_processes(self) -> float:
        """Return the ratio of our worker to a process per clip."""
        return self.worker / self.processes


def was_measured(shape: str) -> bool:
    """Return whether there are results."""
    return (FOLDER / f"reasoner-{shape}.json").exists()


def kept(shape: str) -> dict[str, Any]:
    """Return the results of one shape."""
    results: dict[str, Any] = json.loads((FOLDER / f"reasoner-{shape}.json").read_text(encoding="utf-8"))
    return results


def rates(results: dict[str, Any]) -> Rates:
    """Return the rates of a run with all steps."""
    seconds = [one["process"] for one in results["process"]]
    return Rates(len(seconds) / sum(seconds), _best(results, "raw"), _best(results, "worker"))


def _best(results: dict[str, Any], step: str) -> float:
    clips: int = results["workload"]["clips"]
    return clips / float(min(one["seconds"] for one in results[step]["passes"]))
