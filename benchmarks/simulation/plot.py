"""Plot of `benchmarks.simulation.scaling`: for each pattern, workers over time, and behind them the jobs."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.simulation.runs import RunOutcome
    from benchmarks.simulation.scaling import Outcome

WIDTH, PANEL, MARGIN, TITLE = 760, 96, 48, 30
JOBS, WORKERS, TEXT = "#c9d8ea", "#1f4e89", "#222222"


def plot(outcomes: Sequence[Outcome | RunOutcome]) -> str:
    """Return an SVG with one panel for each outcome, one below another."""
    height = len(outcomes) * (PANEL + TITLE + 24) + 12
    root = ET.Element(
        "svg",
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {height}",
        attrib={"font-family": "sans-serif", "font-size": "12"},
    )
    ET.SubElement(root, "rect", width=str(WIDTH), height=str(height), fill="white")
    for number, outcome in enumerate(outcomes):
        _panel(root, outcome, top=number * (PANEL + TITLE + 24) + TITLE)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode") + "\n"


def _panel(root: ET.Element, outcome: Outcome | RunOutcome, top: float) -> None:
    end = max(time for time, _, _ in outcome.workers) or 1.0
    most_workers = max(1, outcome.most)
    most_jobs = max(1, *(jobs for _, _, jobs in outcome.workers))
    bottom = top + PANEL

    def x(time: float) -> float:
        return MARGIN + (WIDTH - 2 * MARGIN) * time / end

    jobs = [(x(time), bottom - PANEL * count / most_jobs) for time, _, count in outcome.workers]
    area = [(x(0), bottom), *_steps(jobs), (x(end), bottom)]
    ET.SubElement(root, "polygon", points=_points(area), fill=JOBS)
    line = _steps([(x(time), bottom - PANEL * count / most_workers) for time, count, _ in outcome.workers])
    ET.SubElement(root, "polyline", points=_points(line), fill="none", stroke=WORKERS, attrib={"stroke-width": "2"})
    ET.SubElement(root, "path", d=f"M{MARGIN} {top}V{bottom}H{WIDTH - MARGIN}", fill="none", stroke=TEXT)
    _text(
        root,
        MARGIN,
        top - 10,
        f"{outcome.name}: {outcome.started} started, done after {outcome.finished_at / 60:.0f} min, "
        f"${outcome.dollars:.2f}",
    )
    _text(root, MARGIN - 6, top + 10, str(most_workers), WORKERS, "end")
    _text(root, MARGIN - 6, bottom, "0", WORKERS, "end")
    _text(root, WIDTH - MARGIN, bottom + 15, f"{end / 60:.0f} min", anchor="end")
    _text(root, MARGIN, bottom + 15, f"line: workers; area: jobs that wait or are being done, {most_jobs:,} at most")


def _steps(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points of a step function; points that repeat a value are left out."""
    stepped = points[:1]
    for before, after in pairwise(points):
        if after[1] != before[1]:
            stepped += [(after[0], before[1]), after]
    return [*stepped, points[-1]]


def _points(points: list[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _text(root: ET.Element, x: float, y: float, text: str, fill: str = TEXT, anchor: str = "start") -> None:
    element = ET.SubElement(root, "text", x=f"{x:.0f}", y=f"{y:.0f}", fill=fill, attrib={"text-anchor": anchor})
    element.text = text
