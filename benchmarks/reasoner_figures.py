"""Figures computed from `benchmarks/results/reasoner-*.json`: ratios, and the cost of a thousand clips."""

import json
from dataclasses import dataclass
from typing import Any

from benchmarks.results import FOLDER
from cosmos_batch.catalogue.hardware import INSTANCE_TYPES

OF_RAW, OF_PROCESSES, START_SECONDS = 0.9, 600, 60  # limits on a GPU

# bf16 without sparsity in TFLOP/s, memory in TB/s. Source: NVIDIA's data sheets of the H100 SXM and the L40S.
_H100, _L40S = (989.0, 3.35), (362.0, 0.864)
SLOWER = max(of_h100 / of_l40s for of_h100, of_l40s in zip(_H100, _L40S, strict=True))
"""How many times longer an L40S takes at most, by arithmetic or by memory: an estimate, not a measurement."""

PARAMETERS = {"2b": 2_127_532_032, "8b": 8_767_123_696}
"""Of the shapes: what was not measured of the larger one is estimated by them."""

# Minutes for one file on one instance of `VAMS_INSTANCE`, warm to cold, in VAMS's own documentation.
VAMS_MINUTES = {"2b": (10, 30), "8b": (13, 40)}
VAMS_INSTANCE = "g6e.12xlarge"


@dataclass(frozen=True)
class Rates:
    """Clips per second of a process per clip, of raw vLLM and of our worker; of the last two, the better pass."""

    processes: float
    raw: float
    worker: float

    @property
    def of_raw(self) -> float:
        """The ratio of our worker to raw vLLM."""
        return self.worker / self.raw

    @property
    def of_processes(self) -> float:
        """The ratio of our worker to a process per clip."""
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
    return Rates(len(seconds) / sum(seconds), _best(results, "raw"), worker_rate(results))


def worker_rate(results: dict[str, Any]) -> float:
    """Return our worker's clips per second."""
    return _best(results, "worker")


def _best(results: dict[str, Any], step: str) -> float:
    clips: int = results["workload"]["clips"]
    return clips / float(min(one["seconds"] for one in results[step]["passes"]))


def gpu_seconds(shape: str) -> tuple[float, bool]:
    """Return the seconds of one H100 for a thousand clips, and whether they were measured; else they are scaled from
    the 2B's by parameters."""
    if was_measured(shape):
        return 1000 / worker_rate(kept(shape)), True
    return gpu_seconds("2b")[0] * PARAMETERS[shape] / PARAMETERS["2b"], False


def dollars(gpu_seconds: float, instance: str) -> float:
    """Return the dollars of GPU seconds on an instance type, at the catalogue's price."""
    instance_type = INSTANCE_TYPES[instance]
    return gpu_seconds / 3600 * instance_type.dollars_per_hour / instance_type.gpus
