"""The result of one benchmark."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Measurement:
    """One row of the table. `raw` is stored with the results."""

    name: str
    value: str
    limit: str
    met: bool
    raw: dict[str, Any] = field(default_factory=dict)
