"""Results of measurements, stored as JSON, from which alone `docs/benchmarks.md` is written."""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from benchmarks.machine import machine
from benchmarks.measurement import Measurement

FOLDER = Path(__file__).parent / "results"
NO_LIMIT = "none"  # the limit of a measurement that is only told


@dataclass(frozen=True)
class Results:
    """The rows of one run on one machine. `load` is the load average before it."""

    machine: str
    load: float
    day: date
    measured: list[Measurement]

    def keep(self, name: str) -> None:
        """Write the results to `<name>.json`."""
        rows = [asdict(row) for row in self.measured]
        raw = {"machine": self.machine, "load": self.load, "day": f"{self.day}", "measured": rows}
        (FOLDER / f"{name}.json").write_text(json.dumps(raw, indent=1) + "\n", encoding="utf-8")


def measured(measure: Callable[[], list[Measurement]]) -> Results:
    """Run a measurement on this machine."""
    load = round(os.getloadavg()[0], 1)
    return Results(machine(), load, datetime.now(UTC).date(), measure())


def kept(name: str) -> Results:
    """Read the results that `keep` wrote."""
    raw = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return Results(
        raw["machine"], raw["load"], date.fromisoformat(raw["day"]), [Measurement(**row) for row in raw["measured"]]
    )


def stored(path: Path) -> dict[str, Any]:
    """Return the object in a file of results that is not made of rows, such as that of a benchmark on a GPU."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def link(path: Path) -> str:
    """Return a link to a file of results, for `docs/benchmarks.md`."""
    return f"[{path.stem}](../benchmarks/results/{path.name})"


def commands_table(commands: Sequence[tuple[str, str, Sequence[Path]]]) -> str:
    """Return a table of commands, each with what it makes and the files of results that came from it."""
    rows = [f"| `python -m {command}` | {made} | {', '.join(map(link, paths))} |" for command, made, paths in commands]
    return "\n".join(["| command | what it makes | results |", "|---|---|---|", *rows])


def goal_row(name: str, seconds: float | None, goal: float) -> str:
    """Return the row of a table that says whether a measured time, None if there is none, reaches its goal."""
    if seconds is None:
        return f"| {name} | not measured | **not met** |"
    return f"| {name} | {seconds:.2f} s | {'met' if seconds <= goal else '**not met**'} |"


def table(results: Results) -> str:
    """Return the rows of a result as a table."""
    rows = "\n".join(f"| {row.name} | {row.value} | {row.limit} | {_met(row)} |" for row in results.measured)
    return f"""Measured {results.day} on {results.machine}; load average {results.load} before.

| what | measured | limit | met |
|---|---|---|---|
{rows}"""


def _met(row: Measurement) -> str:
    if row.limit == NO_LIMIT:
        return ""
    return "yes" if row.met else "**no**"
