"""Following a run until it has ended."""

import io
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from rich.console import Console
from rich.live import Live

from cosmos_batch.cli.commands.runs.watch import exit_status_of
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.main import main
from cosmos_batch.cli.runs import run_display, run_watcher
from cosmos_batch.cli.runs.run_snapshot import RunCounts, RunSnapshot
from cosmos_batch.cli.runs.run_watcher import ItemRate, RunWatcher
from cosmos_batch.contract.runs import RunState
from cosmos_batch.state import RunRow
from tests.cli.conftest import FakeStepFunctions


@pytest.fixture
def at_each_look(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Provide a function that has things happen between the looks at a run, instead of waiting."""

    def happen(*events: Callable[[], object]) -> None:
        rest = iter(events)
        monkeypatch.setattr(
            run_watcher, "time", SimpleNamespace(sleep=lambda _: next(rest)(), monotonic=lambda: 0.0, time=lambda: 0.0)
        )

    return happen


def end(deployment: Deployment, run: str, state: RunState, reason: str | None = None) -> None:
    deployment.runs.end(run, deployment.execution_arn(run), state, reason)


@pytest.mark.parametrize(
    ("state", "status", "told"),
    [
        ("SUCCEEDED", 1, "1 InvalidInput, such as b"),
        ("HELD", 3, "cosmos-batch runs resume half"),
        ("CANCELLED", 1, "cosmos-batch runs resume half"),
        ("FAILED", 1, "cosmos-batch runs resume half"),
    ],
)
def test_the_exit_status_says_how_the_run_ended(
    state: RunState, status: int, told: str, half: str, deployment: Deployment,
    at_each_look: Callable[..., None], capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    at_each_look(lambda: None, lambda: end(deployment, half, state, "Because."))
    assert main(["runs", "watch", half]) == status
    printed = capsys.readouterr()
    assert f"{half} {state}: Because." in printed.out and told in printed.out + printed.err
    assert "4 of 207 done" in printed.err and "no worker yet" in printed.err


def test_only_a_run_with_every_answer_has_status_0() -> None:
    row = RunRow(
        id="r", state="SUCCEEDED", started_at="2026-11-20T12:00:00+00:00", ended_at="2026-11-20T12:01:00+00:00"
    )
    assert exit_status_of(RunSnapshot("r", row, RunCounts(5, succeeded=5))) == 0
    assert exit_status_of(RunSnapshot("r", row, RunCounts(5, succeeded=4, cancelled=1))) == 1


def test_an_interrupt_ends_only_what_is_shown(
    half: str, at_each_look: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    at_each_look(interrupt)
    assert main(["runs", "watch", half]) == 130
    assert f"The run goes on. To look again: cosmos-batch runs watch {half}" in capsys.readouterr().err


NO_NETWORK = EndpointConnectionError(endpoint_url="http://aws")
THROTTLED, REFUSED = (
    ClientError({"Error": {"Code": code, "Message": "no"}}, "Query") for code in ("ThrottlingException", "AccessDenied")
)


@pytest.mark.parametrize(
    ("fault", "told"),
    [(NO_NETWORK, 'Could not connect to the endpoint URL: "http://aws"'), (THROTTLED, "An error occurred (Throttling")],
)
def test_watching_goes_on_after_a_network_error_or_throttling(
    fault: Exception, told: str, half: str, deployment: Deployment, at_each_look: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    real, failures = run_watcher.read_run_snapshot, iter([True, False, False])

    def read(*arguments: Any) -> RunSnapshot:
        if next(failures):
            raise fault
        return real(*arguments)

    monkeypatch.setattr(run_watcher, "read_run_snapshot", read)
    at_each_look(lambda: None, lambda: end(deployment, half, "SUCCEEDED"))
    assert main(["runs", "watch", half]) == 1
    assert f"no answer: {told}" in capsys.readouterr().err


def test_watching_ends_where_aws_refuses_access(
    half: str, at_each_look: Callable[..., None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def read(*_: object) -> RunSnapshot:
        raise REFUSED

    monkeypatch.setattr(run_watcher, "read_run_snapshot", read)
    at_each_look()
    assert main(["runs", "watch", half]) == 1
    assert "AccessDenied" in capsys.readouterr().err


def test_a_run_whose_execution_was_stopped_is_not_waited_for(
    half: str, stepfunctions: FakeStepFunctions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run_watcher, "NOTED_SECONDS", 0)
    stepfunctions.put(half, "ABORTED")
    assert main(["runs", "watch", half]) == 1
    assert "was stopped" in (printed := capsys.readouterr().err) and f"runs resume {half}" in printed


def test_a_cancelled_run_is_watched_while_its_items_are_closed(
    half: str, deployment: Deployment, stepfunctions: FakeStepFunctions, at_each_look: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(run_watcher, "NOTED_SECONDS", 0)
    stepfunctions.put(half, "ABORTED")
    deployment.runs.cancel(half, "It was stopped.")
    at_each_look(lambda: None, lambda: end(deployment, half, "CANCELLED"))
    assert main(["runs", "watch", half]) == 1
    assert capsys.readouterr().out.startswith(f"{half} CANCELLED")
    deployment.runs.begin(half, deployment.execution_arn(half))
    deployment.runs.cancel(half, "It was stopped again.")
    monkeypatch.setattr(run_watcher, "CLOSED_SECONDS", 0)
    assert main(["runs", "watch", half]) == 1
    assert f"runs cancel {half} starts a new one" in capsys.readouterr().err


def test_the_pace_is_that_of_the_last_minutes() -> None:
    pace = ItemRate()
    pace.add(0.0, 0)
    assert pace.per_second == 0
    pace.add(10.0, 50)
    assert pace.per_second == 5
    for at in range(1000, 2001, 100):
        pace.add(at, at)
    assert pace.per_second == pytest.approx(1.0)


def test_speed_and_time_left_are_shown(half: str, deployment: Deployment) -> None:
    shown: list[str] = []
    watcher = RunWatcher(deployment, half, clock=lambda: 1_795_176_000.0 + 10)  # ten seconds after its start
    watcher._lines(state := run_watcher.read_run_snapshot(deployment, half))
    shown = watcher._lines(state)
    assert state.counts.done - state.counts.reused == 3
    assert "18.0 a minute, 11 min left" in shown[1]


def test_plain_lines_are_printed_when_something_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, clock = io.StringIO(), [0.0]
    monkeypatch.setattr(run_display, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    row = RunRow(id="r", state="RUNNING", started_at="2026-11-20T12:00:00+00:00")
    lines = run_display.PlainLines(stream)
    for done, failed, at in ((0, 0, 1), (1, 0, 2), (2, 0, 3), (3, 1, 4), (4, 1, 40)):
        clock[0] = at
        lines.show(RunSnapshot("r", row, RunCounts(9, succeeded=done - failed, failed=failed)), [f"{done} done"])
    assert stream.getvalue().split("\n") == ["0 done", "1 done", "3 done", "4 done", ""]


@pytest.mark.parametrize("is_colored", [True, False])
def test_a_terminal_gets_a_bar(is_colored: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_colored:
        monkeypatch.setenv("NO_COLOR", "1")
    stream = io.StringIO()
    row = RunRow(id="r", state="RUNNING", started_at="2026-11-20T12:00:00+00:00")
    console = Console(file=stream, force_terminal=True, width=100, color_system="standard", no_color=not is_colored)
    with Live(console=console, auto_refresh=False) as live:
        counts = RunCounts(60, succeeded=30, failed=6, in_flight=12)
        run_display.LiveLines(live).show(RunSnapshot("r", row, counts), ["half is done"])
    text = stream.getvalue().partition("half is done")[0]  # rich draws it again at its end
    assert text.count("█") == 36 and text.count("▒") == 12 and text.count("░") == 12
    assert ("\x1b[32m" in text) == is_colored
