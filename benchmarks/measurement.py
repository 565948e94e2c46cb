"""What a benchmark says."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Measurement:
    """One row of the table. `raw` is kept beside it."""

    name: str
    value: str
    limit: str
    met: bool
    raw: dict[str, Any] = field(default_factory=dict)
