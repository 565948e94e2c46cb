"""Snapshots of a job, and the display that shows its stages."""

import io
import time
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest

from cosmos_batch.cli import job_snapshot, progress
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.job_snapshot import STAGES, JobExecution, JobObserver, JobSnapshot
from cosmos_batch.contract.error import Error
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Result
from cosmos_batch.state import Attempt, PipelineRow, WorkerRow
from tests.cli.conftest import PIPELINE, STARTED, FakeStepFunctions


class Recorder:
    """A display that records its calls."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, str]] = []
        self.texts: list[str] = []

    def reached(self, stage: str, when: str) -> None:
        self.stages.append((stage, when))

    def waiting(self, text: str) -> None:
        self.texts.append(text)


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "POLL_SECONDS", 0)


def run_through(deployment: Deployment, job: Job, stepfunctions: FakeStepFunctions) -> None:
    """Bring a job to its end."""
    stepfunctions.put(job.job_id, "SUCCEEDED")
    stepfunctions.history = [
        {"type": "TaskScheduled", "timestamp": STARTED},
        {"type": "TaskSubmitted", "timestamp": STARTED + timedelta(seconds=2)},
    ]
    workers = deployment.workers(PIPELINE)
    workers.started("batch-1")
    workers.ready("batch-1")
    deployment.jobs.open_attempt(job.job_id, Attempt(id="a", worker="batch-1", solo=False))
    deployment.jobs.stamp(job.job_id, "inferred")
    deployment.jobs.stamp(job.job_id, "written")
    deployment.jobs.commit(job.job_id, "a", Result(job_id=job.job_id))
    deployment.jobs.finish(job.job_id, None)


def test_every_stage_is_shown_once(deployment: Deployment, job: Job, stepfunctions: FakeStepFunctions) -> None:
    run_through(deployment, job, stepfunctions)
    recorder = Recorder()
    progress.follow(deployment, job.job_id, STARTED, recorder)
    assert [stage for stage, _ in recorder.stages] == list(STAGES)
    assert dict(recorder.stages)["queued"] == "2.0 s"


def test_a_resident_worker_was_there_before(deployment: Deployment, job: Job, stepfunctions: FakeStepFunctions) -> None:
    run_through(deployment, job, stepfunctions)
    recorder = Recorder()
    since = STARTED.replace(year=STARTED.year + 100)
    progress.follow(deployment, job.job_id, since, recorder)
    assert dict(recorder.stages)["model loaded"] == "before"


def test_stages_are_shown_in_their_order(
    deployment: Deployment, job: Job, stepfunctions: FakeStepFunctions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resident worker's stages are known before the job is queued."""
    run_through(deployment, job, stepfunctions)
    end = JobObserver(deployment, job.job_id).look()
    assert end.row is not None
    planned = end.row.model_copy(update={"stages": {"planned": end.row.stages["planned"]}})
    unqueued = JobSnapshot(execution=execution(), row=planned, worker=end.worker)
    queued = JobSnapshot(execution=replace(execution(), queued_at=STARTED), row=planned, worker=end.worker)
    sights, recorder, shown = iter([unqueued, queued, end]), Recorder(), []
    monkeypatch.setattr(JobObserver, "look", lambda _: shown.append(len(recorder.stages)) or next(sights))
    progress.follow(deployment, job.job_id, STARTED, recorder)
    assert [stage for stage, _ in recorder.stages] == list(STAGES)
    assert shown == [1, 2, 5], "each as soon as those before it were reached"


def test_nothing_is_waited_for_after_the_last_stage(
    deployment: Deployment, job: Job, stepfunctions: FakeStepFunctions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row of a job has its last stage before its execution has ended."""
    run_through(deployment, job, stepfunctions)
    end = JobObserver(deployment, job.job_id).look()
    queued = replace(execution(), queued_at=STARTED)
    sights = iter([JobSnapshot(queued), JobSnapshot(queued, end.row, end.worker), end])
    monkeypatch.setattr(JobObserver, "look", lambda _: next(sights))
    recorder = Recorder()
    progress.follow(deployment, job.job_id, STARTED, recorder)
    assert recorder.texts == ["checking the request"]
    assert [stage for stage, _ in recorder.stages] == list(STAGES)


def test_the_last_stage_is_waited_for(
    deployment: Deployment, job: Job, stepfunctions: FakeStepFunctions, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_through(deployment, job, stepfunctions)
    seen = JobObserver(deployment, job.job_id).look()
    late = JobSnapshot(execution=seen.execution, row=seen.row, worker=seen.worker)
    stages = {name: time for name, time in seen.row.stages.items() if name != "calledBack"} if seen.row else {}
    row = seen.row.model_copy(update={"stages": stages}) if seen.row else None
    early = JobSnapshot(execution=seen.execution, row=row)
    sights = iter([early, early, late])
    monkeypatch.setattr(JobObserver, "look", lambda _: next(sights))
    recorder = Recorder()
    progress.follow(deployment, job.job_id, STARTED, recorder)
    assert recorder.stages[-1][0] == "called back"


def test_a_failed_job_is_not_waited_for(deployment: Deployment, stepfunctions: FakeStepFunctions) -> None:
    stepfunctions.put("job-2", "FAILED", error="InvalidInput", cause="{}")
    recorder = Recorder()
    snapshot = progress.follow(deployment, "job-2", STARTED, recorder)
    assert snapshot.execution is not None and snapshot.execution.status == "FAILED"
    assert recorder.stages == [("uploaded", "0.0 s")]


def execution(status: str = "RUNNING") -> JobExecution:
    return JobExecution(status, STARTED, None, {}, None, None, None)


def worker(state: str, **fields: object) -> WorkerRow:
    return WorkerRow.model_validate({"worker": "batch-1", "state": state, "lastSeen": "now", **fields})


def attempt(done: int) -> Attempt:
    return Attempt(id="a", worker="w", solo=True, steps_done=done, steps=35)


def test_a_snapshot_says_what_its_job_waits_for(deployment: Deployment, job: Job) -> None:
    row = deployment.jobs.get(job.job_id)
    assert row is not None
    runnable = {"status": "RUNNABLE", "statusReason": "no capacity"}
    running = row.model_copy(update={"state": "RUNNING"})
    counted = {done: running.model_copy(update={"open_attempt": attempt(done)}) for done in (7, 35)}
    done = row.model_copy(update={"state": "SUCCEEDED"})
    cases = [
        (JobSnapshot(), "waiting for its execution to be started"),
        (JobSnapshot(execution()), "checking the request"),
        (JobSnapshot(execution(), row), "waiting for a worker to be started"),
        (JobSnapshot(execution(), row, worker("ENDED")), "waiting for a worker to be started"),
        (JobSnapshot(execution(), row, worker("SUBMITTED")), "Batch job SUBMITTED"),
        (JobSnapshot(execution(), row, worker("SUBMITTED"), batch=runnable), "Batch job RUNNABLE: no capacity"),
        (JobSnapshot(execution(), row, worker("STARTING"), last_line="40 %"), "loading the model: 40 %"),
        (JobSnapshot(execution(), row, worker("READY")), "waiting in the queue"),
        (JobSnapshot(execution(), running, worker("READY")), "the model is answering"),
        (JobSnapshot(execution(), counted[7], worker("READY")), "step 7 of 35"),
        (JobSnapshot(execution(), counted[35], worker("READY")), "all 35 steps are done: decoding, writing"),
        (JobSnapshot(execution(), done, worker("READY")), "writing the result, calling back"),
    ]
    for snapshot, text in cases:
        assert snapshot.waits_for() == text


def test_the_words_fit_a_generator(deployment: Deployment, job: Job) -> None:
    generation = job.model_copy(update={"job_id": "job-2", "pipeline": "cosmos3-nano"})
    deployment.jobs.create(generation)
    row = deployment.jobs.get("job-2")
    assert row is not None
    running = JobSnapshot(execution(), row.model_copy(update={"state": "RUNNING"}), worker("READY"))
    assert running.waits_for() == "the model is generating"


def test_a_waiting_job_shows_why_no_worker_can_serve(
    deployment: Deployment, job: Job, stepfunctions: FakeStepFunctions
) -> None:
    stepfunctions.put(job.job_id, "RUNNING")
    reason = Error(code="ModelUnavailable", message="The hub cannot be reached.", remedy="r")
    breaker = PipelineRow(failures=2, retry_at="2126-11-20T12:02:00.000+00:00", reason=reason)
    deployment.workers(PIPELINE).set_breaker(breaker)
    text = JobObserver(deployment, job.job_id).look().waits_for()
    assert text == "no worker can serve: The hub cannot be reached. r The next worker is started at 12:02:00 UTC."


def test_the_worker_closest_to_the_job_is_shown(
    deployment: Deployment, job: Job, stepfunctions: FakeStepFunctions
) -> None:
    stepfunctions.put(job.job_id, "RUNNING")
    workers = deployment.workers(PIPELINE)
    for name in ("gone", "loading", "submitted"):
        workers.submitted(name, "definition")
    workers.started("loading")
    workers.started("gone")
    workers.ready("gone")
    workers.ended("gone", Error(code="Internal", message="m", remedy="r"))
    seen = JobObserver(deployment, job.job_id).look().worker
    assert seen is not None and seen.worker == "loading"


def test_plain_lines_say_each_thing_once_and_sometimes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, clock = io.StringIO(), [0.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    lines = progress.Lines(stream)
    lines.reached("planned", "1.0 s")
    for _ in range(3):
        lines.waiting("Batch job RUNNABLE")
    clock[0] = 11.0
    lines.waiting("Batch job RUNNABLE")
    assert [line.strip() for line in stream.getvalue().splitlines()] == [
        "1.0 s  planned",
        "… Batch job RUNNABLE",
        "… Batch job RUNNABLE",
    ]


def test_a_terminal_gets_a_live_display() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    with progress.display(terminal) as display:
        display.reached("uploaded", "0.0 s")
        display.waiting("checking the request")
    assert "uploaded" in terminal.getvalue()
    assert "\x1b[" in terminal.getvalue()


@pytest.mark.parametrize("variable", [None, "1"])
def test_a_live_display_has_no_colors_where_the_environment_asks_for_none(
    variable: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """https://no-color.org: any value counts."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if variable is not None:
        monkeypatch.setenv("NO_COLOR", variable)
    terminal = Terminal()
    with progress.display(terminal) as display:
        display.reached("uploaded", "0.0 s")
    assert ("\x1b[32m" in terminal.getvalue()) == (variable is None)


def test_a_stream_that_is_no_terminal_gets_no_control_characters() -> None:
    stream = io.StringIO()
    with progress.display(stream) as display:
        display.reached("uploaded", "0.0 s")
    assert stream.getvalue() == "   0.0 s  uploaded\n"


def test_stages_are_those_of_the_state_table() -> None:
    from typing import get_args

    from cosmos_batch.state.job_rows import Stage

    assert set(job_snapshot._JOB_STAGES.values()) <= set(get_args(Stage))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"time": "2026-11-22T08:09:32Z", "level": "INFO", "message": "backed up nvidia/x"}', "backed up nvidia/x"),
        ("model.safetensors:  40 %", "model.safetensors:  40 %"),
        ('"text"', '"text"'),
        ("{}", "{}"),
        ('{"level": "WARNING", "logger": "torchao", "message": "Failed to load _C_cutlass_90a.abi3.so"}', None),
        ("W1123 00:38:39.343000 14098 torch/utils/_pytree.py:630] <enum 'KernelPreference'> is an Enum", None),
        ("/x/y.py:3: FutureWarning: use z", None),
    ],
)
def test_a_line_of_a_loading_worker_is_shown_by_its_message_and_a_warning_is_not(
    line: str, message: str | None
) -> None:
    assert job_snapshot.message_of(line) == message


def test_the_last_line_that_is_no_warning_is_shown_while_the_model_loads(
    deployment: Deployment, job: Job, stepfunctions: FakeStepFunctions, monkeypatch: pytest.MonkeyPatch
) -> None:
    stepfunctions.put(job.job_id, "RUNNING")
    deployment.workers(PIPELINE).submitted("loading", "definition")
    deployment.workers(PIPELINE).started("loading")
    batch = {"status": "RUNNING", "container": {"logStreamName": "stream"}}
    monkeypatch.setattr(JobObserver, "_batch_job", lambda *_: batch)
    logs = deployment.clients("logs")
    logs.create_log_group(logGroupName="/aws/batch/job")
    logs.create_log_stream(logGroupName="/aws/batch/job", logStreamName="stream")
    now = int(time.time() * 1000)
    lines = ["starting", "model.safetensors:  40 %", "W1123 00:38:39.343000 14098 torch/utils/x.py:630] deprecated"]
    events = [{"timestamp": now + number, "message": line} for number, line in enumerate(lines)]
    logs.put_log_events(logGroupName="/aws/batch/job", logStreamName="stream", logEvents=events)
    assert JobObserver(deployment, job.job_id).look().waits_for() == "loading the model: model.safetensors:  40 %"
