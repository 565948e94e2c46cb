"""The GPUs that a process may use."""

import os
from pathlib import Path

DEVICES = Path("/dev")


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
