"""Reads and writes robot actions as a JSON array of rows, one row for each action."""

import json
from pathlib import Path

import numpy as np

from cosmos_batch.contract.generation.actions import Actions, checked_actions
from cosmos_batch.media.errors import unusable_file, unusable_output

SIZE_LIMIT = 8 * 1024 * 1024  # bytes; the largest chunk of the widest embodiment takes less than 1 MiB
_DIMENSIONS = 2


def read_actions(path: Path, width: int) -> Actions:
    """Return the rows of an uploaded file, each of `width` finite numbers. Raises Failure (InvalidInput)."""
    if path.stat().st_size > SIZE_LIMIT:
        raise unusable_file(
            f"The actions are a file of {path.stat().st_size / 1e6:.1f} MB; {SIZE_LIMIT / 1e6:.1f} MB are allowed.",
            "Cut them into chunks, one for each job.",
        )
    try:
        rows = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise unusable_file(
            f"The actions are not JSON: {error}.",
            "Save them as a JSON array of rows, such as [[0.1, 0.2], [0.3, 0.4]].",
        ) from error
    return checked_actions(rows, width)


def write_actions(path: Path, actions: np.ndarray) -> None:
    """Write an engine's actions, of shape [actions, width]; reading returns exactly the same numbers.

    Raises Failure (EngineFailed) where the array has another shape, or holds NaN or infinity, which JSON lacks.
    """
    if actions.ndim != _DIMENSIONS or not actions.size:
        raise unusable_output(f"actions of shape {list(actions.shape)}; rows of numbers were expected")
    if not np.isfinite(actions).all():
        row = int(np.flatnonzero(~np.isfinite(actions).all(axis=1))[0])
        raise unusable_output(f"actions that are no numbers (NaN or infinite), first in row {row}")
    path.write_text(json.dumps(actions.tolist(), allow_nan=False), encoding="utf-8")
