"""Samples how busy the first GPU of this process is, with nvidia-smi, while a measurement runs."""

import shutil
import statistics
import subprocess
import threading
import time
from types import TracebackType
from typing import Self

from benchmarks.machine import gpus_of_this_process

_EVERY = 200  # milliseconds
_FIELDS = "utilization.gpu,power.draw,clocks.sm,memory.used"


class GpuUsage:
    """A context in which the GPU is sampled. `share` is the middle part of the time that counts: a pass ramps up and
    runs out, which a steady state does not.
    """

    def __init__(self) -> None:
        self._samples: list[tuple[float, list[float]]] = []
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        if shutil.which("nvidia-smi") is not None:
            fields = [f"--query-gpu={_FIELDS}", "--format=csv,noheader,nounits", "-lms", str(_EVERY)]
            command = ["nvidia-smi", *gpus_of_this_process(first=True), *fields]
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            threading.Thread(target=self._read, args=(self._process,), daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._samples.append((time.monotonic(), [float(value) for value in line.split(",")]))

    def summary(self, share: float = 1.0) -> dict[str, float]:
        """Return the means over the middle `share` of the time; nothing without a GPU."""
        if not self._samples:
            return {}
        first, last = self._samples[0][0], self._samples[-1][0]
        margin = (last - first) * (1 - share) / 2
        rows = [values for at, values in self._samples if first + margin <= at <= last - margin]
        busy, watts, clock, memory = (statistics.fmean(column) for column in zip(*rows, strict=True))
        return {"busy": busy, "watts": watts, "megahertz": clock, "mebibytes": memory, "samples": len(rows)}

    def idle_seconds(self, since: float, until: float) -> float | None:
        """Return for how long the GPU had nothing to do between two times of the monotonic clock; None without samples
        between them.
        """
        busy = [values[0] for at, values in self._samples if since <= at <= until]
        return (until - since) * (1 - statistics.fmean(busy) / 100) if busy else None

    def busy_by_second(self) -> list[int | None]:
        """Return for how many percent of each second the GPU was busy; None for a second without a sample."""
        seconds: dict[int, list[float]] = {}
        for at, (busy, *_) in self._samples:
            seconds.setdefault(int(at - self._samples[0][0]), []).append(busy)
        return [
            round(statistics.fmean(seconds[second])) if second in seconds else None
            for second in range(max(seconds, default=-1) + 1)
        ]
