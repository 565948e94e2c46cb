"""The GPUs that this process may use, and their memory."""

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

DEVICES = Path("/dev")
_QUERY_SECONDS = 60  # the first call on a host starts the driver


class LocalGpu(NamedTuple):
    """The kind of GPU of this machine; all GPUs of an instance are of one kind."""

    name: str
    """The driver's name for it, such as NVIDIA H100 80GB HBM3."""

    gib: float
    """Memory as the driver counts it."""


def gpus_here() -> int:
    """Return the number of GPUs: those in `CUDA_VISIBLE_DEVICES` if that is set; 0 without a driver.

    A container has the device files of its own GPUs only.
    """
    if not (DEVICES / "nvidiactl").exists():
        return 0
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return len([device for device in chosen.split(",") if device.strip() not in ("", "-1")])
    return len([path for path in DEVICES.glob("nvidia[0-9]*") if path.name.removeprefix("nvidia").isdigit()])


def gpu_here() -> LocalGpu | None:
    """Return the kind of GPU that this process has, by the one with least memory; None if the driver does not
    answer."""
    try:
        gpus = [LocalGpu(name, float(mib) / 1024) for name, mib in _query("name", "memory.total")]
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return min(gpus, key=lambda gpu: gpu.gib, default=None)


def compute_capability() -> tuple[int, int] | None:
    """Return the least compute capability of the GPUs that this process has; None if the driver does not answer."""
    try:
        capabilities = [capability.partition(".") for (capability,) in _query("compute_cap")]
        return min(((int(major), int(minor)) for major, _, minor in capabilities), default=None)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def free_share() -> float:
    """Return the free share of a GPU's memory: that of the fullest GPU, or 1 if the driver does not answer."""
    try:
        memory = _query("memory.free", "memory.total")
        return min((float(free) / float(total) for free, total in memory), default=1.0)
    except (OSError, subprocess.SubprocessError, ValueError):
        return 1.0


def _query(*fields: str) -> list[list[str]]:
    """Return fields of `nvidia-smi` for each GPU of this process."""
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    if chosen := os.environ.get("CUDA_VISIBLE_DEVICES"):
        command.append(f"--id={chosen}")
    output = subprocess.run(command, capture_output=True, text=True, timeout=_QUERY_SECONDS, check=True).stdout
    return [line.rsplit(", ", len(fields) - 1) for line in output.splitlines()]
