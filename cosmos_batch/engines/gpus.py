"""The GPUs that a process may use."""

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

DEVICES = Path("/dev")
_QUERY_SECONDS = 60  # the first call on a host starts the driver


class Gpu(NamedTuple):
    """Of a machine whose GPUs are all of one kind."""

    name: str
    """Such as NVIDIA H100 80GB HBM3."""

    gib: float
    """Of memory, as the driver counts it."""


def gpus_here() -> int:
    """How many there are: those of `CUDA_VISIBLE_DEVICES` where that is set, and 0 where there is no driver.

    A container has the devices that it was given, and no others.
    """
    if not (DEVICES / "nvidiactl").exists():
        return 0
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return len([one for one in chosen.split(",") if one.strip() not in ("", "-1")])
    return len([path for path in DEVICES.glob("nvidia[0-9]*") if path.name.removeprefix("nvidia").isdigit()])


def gpu_here() -> Gpu | None:
    """What the GPUs of this process are, by the one with least memory; None if the driver does not say."""
    try:
        found = [Gpu(name, float(mib) / 1024) for name, mib in _told("name", "memory.total")]
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return min(found, key=lambda gpu: gpu.gib, default=None)


def free_share() -> float:
    """Of a GPU's memory, what nobody holds: that of the fullest one, and all of it where the driver does not tell."""
    try:
        told = _told("memory.free", "memory.total")
        return min((float(free) / float(total) for free, total in told), default=1.0)
    except (OSError, subprocess.SubprocessError, ValueError):
        return 1.0


def _told(*fields: str) -> list[list[str]]:
    """What the driver says of each GPU of this process."""
    query = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    if chosen := os.environ.get("CUDA_VISIBLE_DEVICES"):
        query.append(f"--id={chosen}")
    told = subprocess.run(query, capture_output=True, text=True, timeout=_QUERY_SECONDS, check=True).stdout
    return [line.rsplit(", ", len(fields) - 1) for line in told.splitlines()]
