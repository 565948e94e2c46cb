"""Whether the host's GPU driver can run the CUDA of the worker's image. Otherwise an engine dies in its own words."""

import re
from pathlib import Path

from cosmos_batch.contract.error import Failure

# The first driver for each CUDA. Source: NVIDIA's CUDA Toolkit release notes, table of driver versions.
FIRST_DRIVER = {"cu128": (570, 26), "cu130": (580, 65)}
VERSION_FILE = Path("/proc/driver/nvidia/version")


def check_driver(cuda: str | None, version_file: Path = VERSION_FILE) -> None:
    """Raises Failure where the driver is missing or too old for `cuda`, such as `cu130`; None asks for none."""
    if cuda is None:
        return
    needed = FIRST_DRIVER[cuda]
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
    found = driver_version(version_file.read_text(encoding="utf-8", errors="replace"))
    if found is not None and found < needed:
        raise Failure(
            "EngineFailed",
            f"The host's NVIDIA driver is {_text(found)}; the image, of {cuda}, needs {_text(needed)} or later.",
            remedy,
            retryable=True,
        )


def driver_version(text: str) -> tuple[int, int] | None:
    """Of the first line of `/proc/driver/nvidia/version`; None where it cannot be told."""
    found = re.search(r"^NVRM version:.*?\b(\d{3})\.(\d+)(?:\.\d+)?\b", text, re.MULTILINE)
    return (int(found[1]), int(found[2])) if found else None


def _text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
