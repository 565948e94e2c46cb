"""What jobs wait for: vCPUs of a compute environment, and this machine's GPUs, each of which is one job's at a time."""

from __future__ import annotations

import collections
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


class WaitingJob(Protocol):
    """A job that waits for capacity, as far as ``Capacity`` needs to know it."""

    job_queue: Any
    stop: bool


@dataclass(frozen=True)
class Allotment:
    """What a job was given."""

    compute_environment: Any
    vcpus: float
    gpus: list[str]
    machine_has_gpus: bool

    @property
    def environment(self) -> dict[str, str]:
        """By which a job sees its own GPUs and no others."""
        return {"CUDA_VISIBLE_DEVICES": ",".join(self.gpus)} if self.machine_has_gpus else {}


class Capacity:
    """A job that does not fit waits, and those behind it in its queue too.

    A job that asks for more GPUs than the machine has is given all of them: what it makes of them, it says itself.
    """

    def __init__(self, gpus: Sequence[str]) -> None:
        self._changed = threading.Condition()
        self._used: collections.defaultdict[str, float] = collections.defaultdict(float)
        self._waiting: dict[str, collections.deque[WaitingJob]] = collections.defaultdict(collections.deque)
        self._gpus = list(gpus)
        self._free_gpus = list(gpus)

    def acquire(self, job: WaitingJob, vcpus: float, gpus: int) -> Allotment | None:
        """Wait until a compute environment of the job's queue has the vCPUs free, and the GPUs are; None if stopped."""
        waiting = self._waiting[job.job_queue.arn]
        with self._changed:
            waiting.append(job)
            try:
                while not job.stop:
                    place = self._place(job, vcpus, min(gpus, len(self._gpus))) if waiting[0] is job else None
                    if place:
                        return place
                    self._changed.wait()
                return None
            finally:
                waiting.remove(job)
                self._changed.notify_all()

    def _place(self, job: WaitingJob, vcpus: float, gpus: int) -> Allotment | None:
        environment = self._first_with_room(job, vcpus)
        if environment is None or gpus > len(self._free_gpus):
            return None
        self._used[environment.arn] += vcpus
        given, self._free_gpus = self._free_gpus[:gpus], self._free_gpus[gpus:]
        return Allotment(environment, vcpus, given, bool(self._gpus))

    def _first_with_room(self, job: WaitingJob, vcpus: float) -> Any | None:
        for environment in job.job_queue.environments:
            enabled = environment.state == "ENABLED"
            if enabled and self._used[environment.arn] + vcpus <= int(environment.compute_resources["maxvCpus"]):
                return environment
        return None

    def release(self, place: Allotment) -> None:
        """Give it back."""
        with self._changed:
            self._used[place.compute_environment.arn] -= place.vcpus
            self._free_gpus += place.gpus
            self._changed.notify_all()

    def wake(self) -> None:
        """Let waiting jobs look again: one was stopped, or a compute environment changed."""
        with self._changed:
            self._changed.notify_all()


def gpus_here(devices: Path = Path("/dev")) -> list[str]:
    """Their names for CUDA: those that `CUDA_VISIBLE_DEVICES` names where it is set, else all."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [one.strip() for one in chosen.split(",") if one.strip() not in ("", "-1")]
    names = [path.name.removeprefix("nvidia") for path in devices.glob("nvidia[0-9]*")]
    return sorted((name for name in names if name.isdigit()), key=int)


CAPACITY = Capacity(gpus_here())
