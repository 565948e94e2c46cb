"""Capacity for jobs: the vCPUs of compute environments, and the GPUs of this machine, each for one job at a time."""

from __future__ import annotations

import collections
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


class WaitingJob(Protocol):
    """The part of a job that ``Capacity`` reads."""

    job_queue: Any
    stop: bool


@dataclass(frozen=True)
class Allotment:
    """The compute environment, vCPUs and GPUs (CUDA names) of a job."""

    compute_environment: Any
    vcpus: float
    gpus: list[str]
    machine_has_gpus: bool

    @property
    def environment(self) -> dict[str, str]:
        """Return the variable that shows a job its own GPUs alone, on a machine that has GPUs."""
        return {"CUDA_VISIBLE_DEVICES": ",".join(self.gpus)} if self.machine_has_gpus else {}


class Capacity:
    """Allots vCPUs and GPUs to jobs. A job that does not fit waits, and with it the jobs behind it in its queue.

    A job that requests more GPUs than the machine has gets all of them.
    """

    def __init__(self, gpus: Sequence[str]) -> None:
        self._changed = threading.Condition()
        self._used: collections.defaultdict[str, float] = collections.defaultdict(float)
        self._waiting: dict[str, collections.deque[WaitingJob]] = collections.defaultdict(collections.deque)
        self._gpus = list(gpus)
        self._free_gpus = list(gpus)

    def acquire(self, job: WaitingJob, vcpus: float, gpus: int) -> Allotment | None:
        """Wait for free vCPUs in an environment of the job's queue, and for free GPUs; None if the job was stopped."""
        waiting = self._waiting[job.job_queue.arn]
        with self._changed:
            waiting.append(job)
            try:
                while not job.stop:
                    allotment = self._allot(job, vcpus, min(gpus, len(self._gpus))) if waiting[0] is job else None
                    if allotment:
                        return allotment
                    self._changed.wait()
                return None
            finally:
                waiting.remove(job)
                self._changed.notify_all()

    def _allot(self, job: WaitingJob, vcpus: float, gpus: int) -> Allotment | None:
        environment = self._first_with_room(job, vcpus)
        if environment is None or gpus > len(self._free_gpus):
            return None
        self._used[environment.arn] += vcpus
        allotted, self._free_gpus = self._free_gpus[:gpus], self._free_gpus[gpus:]
        return Allotment(environment, vcpus, allotted, bool(self._gpus))

    def _first_with_room(self, job: WaitingJob, vcpus: float) -> Any | None:
        for environment in job.job_queue.environments:
            enabled = environment.state == "ENABLED"
            if enabled and self._used[environment.arn] + vcpus <= int(environment.compute_resources["maxvCpus"]):
                return environment
        return None

    def release(self, allotment: Allotment) -> None:
        """Free the capacity of a job that has ended."""
        with self._changed:
            self._used[allotment.compute_environment.arn] -= allotment.vcpus
            self._free_gpus += allotment.gpus
            self._changed.notify_all()

    def wake(self) -> None:
        """Let waiting jobs try again, because one was stopped or a compute environment changed."""
        with self._changed:
            self._changed.notify_all()


def gpus_here(devices: Path = Path("/dev")) -> list[str]:
    """Return the CUDA names of this machine's GPUs: those in ``CUDA_VISIBLE_DEVICES`` where it is set, else all."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [name.strip() for name in chosen.split(",") if name.strip() not in ("", "-1")]
    names = [path.name.removeprefix("nvidia") for path in devices.glob("nvidia[0-9]*")]
    return sorted((name for name in names if name.isdigit()), key=int)


CAPACITY = Capacity(gpus_here())
