"""What is wrong with one line of a run's inputs, in words for the person who wrote it."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from cosmos_batch.contract.error import Failure


@dataclass(frozen=True)
class Problem:
    """One wrong field of one line. `field` is its path in the line's JSON, or "" for the line as a whole.

    `line` is 0 where the source is a file that was named, and not a list of inputs.
    """

    source: str
    line: int
    field: str
    message: str
    remedy: str

    def __str__(self) -> str:
        field = f"{self.field}: " if self.field else ""
        line = f", line {self.line}" if self.line else ""
        return f"{self.source}{line}: {field}{self.message} {self.remedy}"


@dataclass(frozen=True)
class Wrong:
    """A problem before it is known in which line of which source it stands."""

    field: str
    message: str
    remedy: str

    @classmethod
    def of(cls, field: str, failure: Failure) -> "Wrong":
        """Return a refusal as the problem of a field; the message does not repeat the field's name."""
        message = failure.error.message.removeprefix(f"{field}: ")
        return cls(field, message, failure.error.remedy)

    def at(self, source: str, line: int) -> Problem:
        """Return the problem with its place."""
        return Problem(source, line, self.field, self.message, self.remedy)


class WrongLine(Exception):  # noqa: N818 - it says what is wrong
    """A line that is no request. It carries everything that is wrong with it."""

    def __init__(self, wrongs: list[Wrong]) -> None:
        super().__init__("\n".join(f"{wrong.field}: {wrong.message}" for wrong in wrongs))
        self.wrongs = wrongs


def unknown_field(path: str, allowed: Iterable[str]) -> Wrong:
    """Return the problem of a field that does not exist; the remedy names the known one that is nearest to it.

    >>> unknown_field("promt", ["id", "input", "prompt"]).remedy
    'Did you mean `prompt`?'
    """
    names = list(allowed)
    near = difflib.get_close_matches(path.rpartition(".")[2], names, n=1)
    remedy = f"Did you mean `{near[0]}`?" if near else f"Remove it; known are {', '.join(names)}."
    return Wrong(path, "is not a known field.", remedy)
