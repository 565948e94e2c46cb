"""The result of one benchmark."""

from collections.abc import Sequence
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


def told(rows: Sequence[Measurement]) -> int:
    """Print each row, and return a program's exit status: 1 if a limit is not met, else 0."""
    for row in rows:
        print(f"{'ok ' if row.met else 'NOT'} {row.name}: {row.value} ({row.limit})")
    return 0 if all(row.met for row in rows) else 1
