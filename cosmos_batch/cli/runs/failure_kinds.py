"""Group the errors of a run by their code, and describe each kind with an example and its remedy."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.runs import ResultLine


@dataclass(frozen=True)
class FailureKind:
    """The failed items with one code, and one of them as an example."""

    code: str
    count: int
    example: str
    error: Error

    def to_json(self) -> dict[str, Any]:
        """Return all fields, with the example's message and remedy."""
        example = {"id": self.example, "message": self.error.message, "remedy": self.error.remedy}
        return {"code": self.code, "count": self.count, "example": example}


def failure_kinds(lines: Iterable[ResultLine]) -> list[FailureKind]:
    """Return the kinds of failures among lines, the most frequent first."""
    counts: Counter[str] = Counter()
    examples: dict[str, tuple[str, Error]] = {}
    for line in lines:
        if line.error is not None:
            counts[line.error.code] += 1
            examples.setdefault(line.error.code, (line.id, line.error))
    return [FailureKind(code, count, *examples[code]) for code, count in counts.most_common()]


def failure_lines(kinds: Iterable[FailureKind]) -> list[str]:
    """Return the kinds as lines for a person."""
    lines = []
    for kind in kinds:
        lines.append(f"  {kind.count:>9,} {kind.code}, such as {kind.example}: {kind.error.message}")
        lines.append(f"            {kind.error.remedy}")
    return lines
