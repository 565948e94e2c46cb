"""The settings of a generation with actions, and the check of an array of actions that was read from JSON."""

import math

from pydantic import Field

from cosmos_batch.catalogue.generation import FRAME_STEP, ViewPoint
from cosmos_batch.contract.base import Model
from cosmos_batch.contract.error import Failure

Actions = list[list[float]]
"""One row of numbers for each action."""


class ActionSettings(Model):
    """Settings of a `forward_dynamics`, `inverse_dynamics` or `policy` generation."""

    domain_name: str
    width: int = Field(ge=1, description="How many numbers one action has")
    chunk_size: int = Field(ge=FRAME_STEP, multiple_of=FRAME_STEP, description="How many actions there are")
    view_point: ViewPoint
    actions: Actions | None = Field(
        default=None, description="forward_dynamics: the actions, if the request contains them"
    )
    path: str | None = Field(
        default=None, description="forward_dynamics: the file of the actions otherwise; a worker checks it"
    )

    @property
    def frames(self) -> int:
        """Return the number of frames of the video: one before each action and one after the last."""
        return self.chunk_size + 1


def checked_actions(rows: object, width: int) -> Actions:
    """Return an array of actions that was read from JSON. Raises Failure that names the wrong row."""
    if not isinstance(rows, list) or not rows:
        raise _refusal("is not an array of actions", width)
    return [_checked_row(row, index, width) for index, row in enumerate(rows)]


def _checked_row(row: object, index: int, width: int) -> list[float]:
    if not isinstance(row, list):
        raise _refusal(f"row {index} is not an array", width)
    if len(row) != width:
        raise _refusal(f"row {index} has {len(row)} numbers", width)
    for number in row:
        if isinstance(number, bool) or not isinstance(number, int | float) or not _is_finite(number):
            raise _refusal(f"row {index} contains {str(number)[:40]}, which is no finite number", width)
    return [float(number) for number in row]


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(float(number))
    except OverflowError:  # an integer that no float can hold
        return False


def _refusal(problem: str, width: int) -> Failure:
    return Failure(
        "InvalidInput",
        f"action: {problem}.",
        f"Send a JSON array of rows, one for each action, each of {width} finite numbers.",
    )
