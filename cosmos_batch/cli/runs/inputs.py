"""An input of a run as its source lists it, and the counts of inputs that are taken, left out or wrong."""

from collections import Counter, defaultdict
from typing import NamedTuple

from cosmos_batch.cli.errors import WrongCall
from cosmos_batch.cli.messages import warn
from cosmos_batch.cli.runs.plan_report import left_out_lines
from cosmos_batch.contract.counting import counted
from cosmos_batch.contract.runs import RunItem
from cosmos_batch.planning.runs.line_problems import LineProblem
from cosmos_batch.planning.runs.selection import NOT_MISSED

_FIRST = 20  # problems that an error names
NAMED = 10  # files of one kind that are named where they are left out


class ListedInput(NamedTuple):
    """An input as its source lists it, before a sweep multiplies it. `source` and `line` say where to correct it."""

    item: RunItem
    source: str
    line: int


class WrongInputs(WrongCall):
    """End the command because of inputs that cannot be used. `first` has the first of the problems."""

    def __init__(self, message: str, remedy: str, first: list[LineProblem]) -> None:
        self.first = first
        super().__init__(message, remedy)


class InputCounts:
    """Counts of what was left out and why. Wrong lines are printed as they are found, because there may be a million.

    `read` counts the inputs that were taken, `prompts` those of them that are a prompt without a file, and `bytes` has
    the sizes that are known. `left_out_names` has the
    first of the files that were left out, by the reason.
    """

    def __init__(self) -> None:
        self.left_out: Counter[str] = Counter()
        self.left_out_names: defaultdict[str, list[str]] = defaultdict(list)
        self.problems = 0
        self._first: list[LineProblem] = []
        self.read = 0
        self.prompts = 0
        self.bytes = 0

    def take(self, item: RunItem) -> None:
        """Count an input that is taken."""
        self.read += 1
        self.prompts += item.input is None
        self.bytes += item.size or 0

    def leave_out(self, why: str, name: str) -> None:
        """Count a file that is left out; `why` is a plural of such files. The first that may be missed are named."""
        self.left_out[why] += 1
        if why not in NOT_MISSED and len(self.left_out_names[why]) < NAMED:
            self.left_out_names[why].append(name)

    def refuse(self, problem: LineProblem) -> None:
        """Print and count a problem."""
        self.problems += 1
        if len(self._first) < _FIRST:
            self._first.append(problem)
        warn(str(problem))

    def refuse_wrong_lines(self, skip_invalid: bool) -> None:
        """Raise WrongCall if a line was wrong, or if nothing is left. With `skip_invalid`, only if nothing is left."""
        if self.problems and not (skip_invalid and self.read):
            hint = " --skip-invalid goes on with the others." if self.read else ""
            raise WrongInputs(
                f"{counted(self.problems, 'problem')} in the inputs, named above. Nothing was started.",
                f"Correct each as its line says.{hint}",
                self._first,
            )
        if not self.read:
            left_out = "".join(f"\n  {line}" for line in left_out_lines(self.left_out, self.left_out_names))
            raise WrongCall(
                f"There is no file to ask about{f'. Left out:{left_out}' if left_out else '.'}",
                "Check the name of the folder, prefix or list, and the patterns of --include and --exclude.",
            )
