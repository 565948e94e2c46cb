"""The GPUs that a process may use."""

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

DEVICES = Path("/dev")
_QUERY = ["nvidia-smi", "--query-gpu=memory.free,memory.total", "--format=csv,noheader,nounits"]
_NAMES = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
_QUERY_SECONDS = 60  # the first call on a host starts the driver


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


def kind_here(kinds: Iterable[str]) -> str | None:
    """Which of these GPUs a machine has, by the words of their names, such as NVIDIA H100 80GB HBM3; None if it does
    not say."""
    try:
        told = subprocess.run(_NAMES, capture_output=True, text=True, timeout=_QUERY_SECONDS, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return next((kind for kind in kinds if kind in told.split()), None)


def free_share() -> float:
    """Of a GPU's memory, what nobody holds: that of the fullest one, and all of it where the driver does not tell."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    query = [*_QUERY, f"--id={chosen}"] if chosen else _QUERY
    try:
        told = subprocess.run(query, capture_output=True, text=True, timeout=_QUERY_SECONDS, check=True).stdout
        pairs = [line.split(",") for line in told.splitlines()]
        return min((float(free) / float(total) for free, total in pairs), default=1.0)
    except (OSError, subprocess.SubprocessError, ValueError):
        return 1.0
