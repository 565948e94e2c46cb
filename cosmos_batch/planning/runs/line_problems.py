"""Say what is wrong with one line of a run's inputs, in words for the person who wrote it."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Self

from cosmos_batch.contract.error import Failure, nearest_name


@dataclass(frozen=True)
class LineProblem:
    """One wrong field of one line. `field` is its path in the line's JSON, or "" for the line as a whole.

    `line` is 0 where the source is a file that was named, and not a list of inputs.
    """

    source: str
    line: int
    field: str
    message: str
    remedy: str

    def __str__(self) -> str:
        if self.line == 0 and self.source in self.message:
            return f"{self.message} {self.remedy}"
        field = f"{self.field}: " if self.field else ""
        line = f", line {self.line}" if self.line else ""
        return f"{self.source}{line}: {field}{self.message} {self.remedy}"


@dataclass(frozen=True)
class FieldProblem:
    """A problem before it is known in which line of which source it stands."""

    field: str
    message: str
    remedy: str

    @classmethod
    def of(cls, field: str, failure: Failure) -> Self:
        """Return a refusal as the problem of a field; the message does not repeat the field's name."""
        message = failure.error.message.removeprefix(f"{field}: ")
        return cls(field, message, failure.error.remedy)

    @classmethod
    def unknown(cls, path: str, known: Collection[str]) -> Self:
        """Return the problem of a field that does not exist; the remedy names the known one that is nearest to it.

        >>> FieldProblem.unknown("promt", ["id", "input", "prompt"]).remedy
        'Did you mean `prompt`?'
        """
        near = nearest_name(path.rpartition(".")[2], known)
        remedy = f"Did you mean `{near}`?" if near else f"Remove it; known are {', '.join(known)}."
        return cls(path, "is not a known field.", remedy)

    def at(self, source: str, line: int) -> LineProblem:
        """Return the problem with its place."""
        return LineProblem(source, line, self.field, self.message, self.remedy)


class WrongLine(Exception):  # noqa: N818 - it says what is wrong
    """A line that is no request. It carries everything that is wrong with it."""

    def __init__(self, problems: list[FieldProblem]) -> None:
        super().__init__("\n".join(f"{problem.field}: {problem.message}" for problem in problems))
        self.problems = problems
