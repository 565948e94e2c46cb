"""Checks that the host's NVIDIA driver can run the CUDA version of the worker's image.

An engine would fail on an older driver too, but with an error that does not name the cause.
"""

import re
from pathlib import Path

from cosmos_batch.contract.error import Failure

# The oldest driver for each CUDA version. Source: NVIDIA's CUDA Toolkit release notes, table of driver versions.
OLDEST_DRIVER = {"cu128": (570, 26), "cu130": (580, 65)}
VERSION_FILE = Path("/proc/driver/nvidia/version")


def check_driver(cuda: str | None, version_file: Path = VERSION_FILE) -> None:
    """Raise Failure where the driver is missing or too old for `cuda`, such as `cu130`. None needs no driver."""
    if cuda is None:
        return
    needed = OLDEST_DRIVER[cuda]
    remedy = (
        f"Use hosts whose driver is {_text(needed)} or later, as AWS's newest image has: "
        "set app.cosmosBatch.operations.hostImage to today's date and deploy."
    )
    if cuda == "cu130":
        remedy += " The reasoner's image is built for older ones too: set app.cosmosBatch.images.cuda to 'cu128'."
    if not version_file.exists():
        raise Failure(
            "EngineFailed", f"This host has no NVIDIA driver; the image needs one for {cuda}.", remedy, retryable=True
        )
    installed = driver_version(version_file.read_text(encoding="utf-8", errors="replace"))
    if installed is not None and installed < needed:
        raise Failure(
            "EngineFailed",
            f"The host's NVIDIA driver is {_text(installed)}; the image, of {cuda}, needs {_text(needed)} or later.",
            remedy,
            retryable=True,
        )


def driver_version(text: str) -> tuple[int, int] | None:
    """Parse the first line of `/proc/driver/nvidia/version`; None if it has another form."""
    match = re.search(r"^NVRM version:.*?\b(\d{3})\.(\d+)(?:\.\d+)?\b", text, re.MULTILINE)
    return (int(match[1]), int(match[2])) if match else None


def _text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
