"""Read the lossy modes of a benchmark's command line."""

import argparse
from collections.abc import Sequence

from cosmos_batch.catalogue.generation import LossyMode


def modes_named(allowed: Sequence[LossyMode], text: str) -> list[LossyMode]:
    """Return the modes in a text such as `fp8,fp8Cache`. Raises ArgumentTypeError for one that is not allowed."""
    names = text.split(",")
    modes = [mode for mode in allowed if mode in names]
    if unknown := [name for name in names if name not in modes]:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not one of {', '.join(allowed)}")
    return modes
