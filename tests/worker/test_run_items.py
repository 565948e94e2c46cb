"""Items of runs: they are counted in their shards, whose last item answers; the run's row says when to stop."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cosmos_batch.contract.error import Error, Failure, too_late
from cosmos_batch.contract.identity import Identity
from cosmos_batch.contract.job import PLAN_AGAIN, Job
from cosmos_batch.contract.result import Answer, Result
from cosmos_batch.engines.errors import EngineDied, ServerUnavailable
from cosmos_batch.state import Attempt, ItemFacts, JobRow, Watcher
from cosmos_batch.worker import attempt_endings, callers, costs, loop, runner
from cosmos_batch.worker.queue import Delivery
from tests.worker.conftest import ASSETS, WorkerFixture
from tests.worker.engines import PATIENCE, Counting, until


@pytest.fixture(autouse=True)
def _reads_runs_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callers, "SECONDS", 0.0)


def row(bench: WorkerFixture, name: str) -> JobRow:
    found = bench.jobs.get(name)
    assert found is not None
    return found


def answered(bench: WorkerFixture) -> list[str]:
    return [call["taskToken"] for call in bench.stepfunctions.calls_of("success")]


def test_the_last_item_of_a_shard_answers_its_token_and_no_item_has_one(bench: WorkerFixture) -> None:
    bench.feed("r", items=2)
    for item, name in enumerate(("item-a", "item-b")):
        bench.send_item(bench.job(name, prompt="What?", create=False), Watcher("r", "00000", item))
    bench.worker().run()
    shard = bench.shard("r")
    assert (shard.succeeded, shard.failed, shard.ended) == (2, 0, {0, 1})
    assert answered(bench) == ["shard-of-r"]
    assert not bench.stepfunctions.calls_of("heartbeat")
    assert json.loads(bench.document("item-a"))["result"] == "What?"
    assert bench.waiting() == (0, 0)


def test_a_bad_file_fails_its_item_and_not_its_shard(bench: WorkerFixture) -> None:
    bench.feed("r", items=2)
    bench.send_item(bench.job("item-bad", create=False, body=b"no picture"), Watcher("r", "00000", 0))
    bench.send_item(bench.job("item-good", create=False), Watcher("r", "00000", 1))
    bench.worker().run()
    assert (bench.shard("r").succeeded, bench.shard("r").failed) == (1, 1)
    assert row(bench, "item-bad").state == "FAILED"
    assert answered(bench) == ["shard-of-r"]


def test_an_item_of_two_runs_is_inferred_once_and_counted_in_both(bench: WorkerFixture) -> None:
    for run in ("r1", "r2"):
        bench.feed(run, items=1)
    job = bench.job("item-a", create=False)
    bench.send_item(job, Watcher("r1", "00000", 0), Watcher("r2", "00000", 0))
    engine = Counting()
    bench.worker(engine=engine).run()
    assert engine.most == 1
    assert [bench.shard(run).succeeded for run in ("r1", "r2")] == [1, 1]
    assert sorted(answered(bench)) == ["shard-of-r1", "shard-of-r2"]
    assert row(bench, "item-a").paid_by == "r1"


def test_a_worker_that_ends_before_it_counts_leaves_the_count_to_the_next(bench: WorkerFixture) -> None:
    """The message is deleted only after the count, so SQS delivers it again."""
    bench.feed("r", items=1)
    job = bench.job("item-a", create=False)
    bench.send_item(job, Watcher("r", "00000", 0))
    bench.worker("first").run()
    bench.table.update("run#r", "shard#00000", "SET #succeeded = :none REMOVE #ended", {"none": 0})
    bench.send_item(job, Watcher("r", "00000", 0))
    engine = Counting()
    bench.worker("second", engine=engine).run()
    assert engine.most == 0
    assert bench.shard("r").succeeded == 1
    assert answered(bench) == ["shard-of-r", "shard-of-r"]


def test_an_item_of_a_cancelled_run_is_dropped_before_it_begins(bench: WorkerFixture) -> None:
    bench.feed("r", items=1)
    bench.send_item(bench.job("item-a", create=False), Watcher("r", "00000", 0))
    bench.runs.cancel("r", "by a person")
    engine = Counting()
    bench.worker(engine=engine).run()
    assert engine.most == 0
    assert bench.shard("r").cancelled == 1
    assert row(bench, "item-a").state == "CANCELLED"
    assert bench.waiting() == (0, 0)


def test_an_item_of_a_run_that_goes_on_is_done_though_the_worker_has_just_read_that_it_was_cancelled(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callers, "SECONDS", 3600.0)
    bench.feed("r", items=1)
    bench.send_item(bench.job("item-a", create=False), Watcher("r", "00000", 0))
    bench.runs.begin("r", "arn:e1")
    bench.runs.cancel("r", "by a person")
    cancel = callers.Callers.cancel

    def resume_first(self: callers.Callers, delivery: Delivery) -> bool:
        bench.runs.end("r", "arn:e1", "CANCELLED", None)
        bench.runs.begin("r", "arn:e2")
        return cancel(self, delivery)

    monkeypatch.setattr(callers.Callers, "cancel", resume_first)
    bench.worker().run()
    assert (bench.shard("r").succeeded, bench.shard("r").cancelled) == (1, 0)


def test_an_item_that_another_run_wants_is_done_though_its_own_run_was_cancelled(bench: WorkerFixture) -> None:
    for run in ("r1", "r2"):
        bench.feed(run, items=1)
    bench.send_item(bench.job("item-a", create=False), Watcher("r1", "00000", 0), Watcher("r2", "00000", 0))
    bench.runs.cancel("r1", "by a person")
    bench.worker().run()
    assert bench.shard("r2").succeeded == 1


def test_an_item_in_the_engine_is_dropped_when_its_run_is_cancelled(bench: WorkerFixture, tmp_path: Path) -> None:
    bench.feed("r", items=1)
    never = json.dumps({"until": str(tmp_path / "never")})
    bench.send_item(bench.job("item-a", prompt=never, create=False), Watcher("r", "00000", 0))
    engine = Cancelling(bench)
    bench.worker(engine=engine).run()
    assert engine.most == 1
    assert row(bench, "item-a").state == "CANCELLED"
    assert bench.shard("r").cancelled == 1


class Cancelling(Counting):
    """Cancels the run as soon as a job is in the engine."""

    def __init__(self, bench: WorkerFixture) -> None:
        super().__init__()
        self.bench = bench

    async def run(self, job, workdir):  # type: ignore[no-untyped-def]
        self.bench.runs.cancel("r", "by a person")
        return await super().run(job, workdir)


def plan_anew(bench: WorkerFixture, job: Job) -> None:
    """Let another worker take the job's attempt for lost and fail the job, and let a later run plan it anew."""
    bench.jobs.close_lost_attempt(row(bench, job.job_id))
    bench.jobs.open_attempt(job.job_id, Attempt(id="faster", worker="worker-2", solo=True))
    bench.jobs.commit(job.job_id, "faster", Result(job_id=job.job_id, error=DEATH), facts=ItemFacts())
    bench.jobs.finish(job.job_id, DEATH)
    assert bench.jobs.watch(job, Watcher("r2", "00000", 0), retry=True)[0] == "send"


class Overtaken(Counting):
    """A job is planned anew while it is in this engine."""

    def __init__(self, bench: WorkerFixture, error: Exception | None) -> None:
        super().__init__()
        self._bench, self._error = bench, error

    async def run(self, job: Job, workdir: Path) -> Answer:
        plan_anew(self._bench, job)
        answer = await super().run(job, workdir)
        if self._error is not None:
            raise self._error
        return answer


@pytest.mark.parametrize("error", [None, Failure("EngineFailed", "It cannot.", "Take less.")], ids=["answer", "error"])
def test_an_attempt_from_before_a_job_was_planned_anew_does_not_decide_it(
    bench: WorkerFixture, error: Exception | None
) -> None:
    for run in ("r1", "r2"):
        bench.feed(run, items=1)
    bench.send_item(bench.job("item-a", create=False), Watcher("r1", "00000", 0))
    engine = Overtaken(bench, error)
    bench.worker(engine=engine).run()
    anew = row(bench, "item-a")
    assert (engine.runs, anew.state, anew.winner, anew.result) == (1, "PLANNED", None, None)
    assert (bench.shard("r2").done, bench.waiting()) == (0, (0, 1)), "its message is left in the queue"


@pytest.mark.parametrize("failing", ["prepare", "refusal"])
def test_an_error_before_the_engine_does_not_decide_a_job_that_was_planned_anew_meanwhile(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """The file of the job is no picture, or the job's deadline has passed."""
    for run in ("r1", "r2"):
        bench.feed(run, items=1)
    late = {"deadline": datetime.now(UTC) - timedelta(seconds=1)} if failing == "refusal" else {}
    job = bench.job("item-a", create=False, body=b"no picture", **late)
    bench.send_item(job, Watcher("r1", "00000", 0))
    step = getattr(runner, failing)

    def plan_anew_first(*arguments: object) -> object:
        plan_anew(bench, job)
        return step(*arguments)

    monkeypatch.setattr(runner, failing, plan_anew_first)
    engine = Counting()
    bench.worker(engine=engine).run()
    anew = row(bench, "item-a")
    assert (engine.runs, anew.state, anew.winner, anew.result) == (0, "PLANNED", None, None)
    assert (bench.shard("r2").done, bench.waiting()) == (0, (0, 1)), "its message is left in the queue"


def test_an_attempt_decides_the_plan_of_its_job_in_which_it_was_opened(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job is planned anew after its row was read, and before the attempt is opened."""
    for run in ("r1", "r2"):
        bench.feed(run, items=1)
    bench.send_item(bench.job("item-a", create=False), Watcher("r1", "00000", 0))
    wait = runner.wait_for_disk

    async def plan_anew_first(job: Job, workdir: Path) -> None:
        plan_anew(bench, job)
        await wait(job, workdir)

    monkeypatch.setattr(runner, "wait_for_disk", plan_anew_first)
    bench.worker().run()
    assert row(bench, "item-a").state == "SUCCEEDED"
    assert (bench.shard("r2").succeeded, bench.waiting()) == (1, (0, 0))


def test_an_item_whose_deadline_passes_in_the_engine_fails_as_timed_out(bench: WorkerFixture, tmp_path: Path) -> None:
    bench.feed("r", items=1)
    never = json.dumps({"until": str(tmp_path / "never")})
    soon = datetime.now(UTC) + timedelta(seconds=4)
    bench.send_item(bench.job("item-a", prompt=never, create=False, deadline=soon), Watcher("r", "00000", 0))
    bench.worker().run()
    result = row(bench, "item-a").result
    assert result is not None and result.error == too_late(soon)
    assert bench.shard("r").failed == 1


def test_the_document_of_a_run_that_wants_a_table_only_is_not_written_beside_the_file(bench: WorkerFixture) -> None:
    bench.feed("r", items=1)
    bench.send_item(bench.job("item-a", create=False), Watcher("r", "00000", 0), table_only=True)
    bench.worker().run()
    assert bench.s3.list_objects_v2(Bucket=ASSETS, Prefix="out/")["KeyCount"] == 0
    ended = row(bench, "item-a")
    assert ended.state == "SUCCEEDED" and ended.winner is not None
    assert json.loads(bench.staged.read("item-a", ended.winner))["jobId"] == "item-a"


def test_an_item_that_was_planned_for_another_deployment_is_planned_again_after_some_receipts(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "RECEIPTS_BEFORE_PLANNED_AGAIN", 1)
    bench.feed("r", items=1)
    other = Identity(model="m", engine="scripted", configuration="another")
    bench.send_item(bench.job("item-a", create=False, planned_for=other), Watcher("r", "00000", 0))
    bench.worker().run()
    [answer] = bench.stepfunctions.calls_of("failure")
    assert (answer["taskToken"], answer["error"]) == ("shard-of-r", PLAN_AGAIN)
    assert (row(bench, "item-a").state, row(bench, "item-a").is_sent) == ("PLANNED", False)
    assert (bench.shard("r").done, bench.shard("r").is_awaited) == (0, False)


def test_an_item_has_until_the_deadline_of_a_run_that_joined_later(bench: WorkerFixture) -> None:
    for run in ("r1", "r2"):
        bench.feed(run, items=1)
    early = bench.job("item-a", create=False, deadline=datetime.now(UTC) - timedelta(seconds=1))
    later = early.model_copy(update={"deadline": datetime.now(UTC) + timedelta(hours=1)})
    bench.send_item(early, Watcher("r1", "00000", 0))
    bench.jobs.watch(later, Watcher("r2", "00000", 0), retry=False)
    bench.worker().run()
    assert row(bench, "item-a").state == "SUCCEEDED"
    assert [bench.shard(run).succeeded for run in ("r1", "r2")] == [1, 1]


def test_a_message_of_a_cancelled_run_is_kept_if_another_run_joins_at_that_moment(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for run in ("r1", "r2"):
        bench.feed(run, items=1)
    job = bench.job("item-a", create=False)
    bench.send_item(job, Watcher("r1", "00000", 0))
    bench.runs.cancel("r1", "by a person")
    cancel = callers.Callers.cancel

    def join_first(self: callers.Callers, delivery: Delivery) -> bool:
        bench.jobs.watch(job, Watcher("r2", "00000", 0), retry=False)
        return cancel(self, delivery)

    monkeypatch.setattr(callers.Callers, "cancel", join_first)
    bench.worker().run()
    assert bench.shard("r2").succeeded == 1


def test_an_item_counts_its_share_of_the_gpus_and_their_price(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "gpus_here", lambda: 2)
    monkeypatch.setattr(costs, "instance_type", lambda: "g6e.12xlarge")
    bench.feed("r", items=1)
    bench.send_item(bench.job("item-a", create=False), Watcher("r", "00000", 0))
    bench.worker().run()
    shard, job = bench.shard("r"), row(bench, "item-a")
    assert shard.gpu_seconds == job.gpu_seconds > 0
    assert shard.dollars == job.dollars > 0


@pytest.fixture
def a_second_for_each_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each attempt at an item that comes into the engine cost a GPU second and a quarter of a dollar."""
    monkeypatch.setattr(attempt_endings, "facts_of", lambda _, revision: ItemFacts(1.0, 0.25, revision))


class FailingFirst(Counting):
    """Raises an error for the first job, and answers all further ones."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    async def run(self, job: Job, workdir: Path) -> Answer:
        answer = await super().run(job, workdir)
        if self.runs == 1:
            raise self._error
        return answer


DEATH = Error(code="EngineFailed", message="The engine was killed by SIGSEGV.", remedy="Take less.", retryable=True)


@pytest.mark.usefixtures("a_second_for_each_attempt")
@pytest.mark.parametrize(
    "error",
    [RuntimeError("a fault"), EngineDied(DEATH)],
    ids=["failed", "lost with its engine"],
)
def test_an_item_costs_its_run_all_attempts(bench: WorkerFixture, error: Exception) -> None:
    bench.feed("r", items=1)
    bench.send_item(bench.job("item-a", create=False), Watcher("r", "00000", 0))
    bench.worker(engine=FailingFirst(error)).run()
    shard = bench.shard("r")
    assert (shard.succeeded, shard.gpu_seconds, shard.dollars) == (1, 2.0, 0.5)


@pytest.mark.usefixtures("a_second_for_each_attempt")
def test_an_item_that_waits_for_a_server_has_cost_what_it_took_before(bench: WorkerFixture) -> None:
    bench.feed("r", items=1)
    bench.send_item(bench.job("item-a", create=False), Watcher("r", "00000", 0))
    bench.worker(engine=FailingFirst(ServerUnavailable("interrupted", "It broke off.", "Wait.", 600))).run()
    assert (row(bench, "item-a").pauses, row(bench, "item-a").dollars) == (1, 0.25)


@pytest.mark.usefixtures("a_second_for_each_attempt")
def test_an_item_that_fails_each_time_costs_its_run_all_attempts(bench: WorkerFixture) -> None:
    bench.feed("r", items=1)
    script = json.dumps({"raise": "a fault"})
    bench.send_item(bench.job("item-a", prompt=script, create=False), Watcher("r", "00000", 0))
    bench.worker(max_attempts=3).run()
    assert (bench.shard("r").failed, bench.shard("r").dollars) == (1, 0.75)


@pytest.mark.usefixtures("a_second_for_each_attempt")
def test_an_item_whose_result_could_not_be_stored_costs_its_run_that_attempt_too(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.feed("r", items=1)
    bench.send_item(bench.job("item-a", create=False), Watcher("r", "00000", 0))

    def break_down(*_: object) -> None:
        raise OSError("the disk is broken")

    monkeypatch.setattr(runner, "collect_outputs", break_down)
    bench.worker().run()
    assert row(bench, "item-a").dollars == 0.25


@pytest.mark.usefixtures("a_second_for_each_attempt")
def test_an_item_that_a_stopped_worker_gives_back_has_cost_what_it_took_there(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(loop, "STOP_SECONDS", 5)
    bench.feed("r", items=1)
    never = json.dumps({"until": str(tmp_path / "never")})
    bench.send_item(bench.job("item-a", prompt=never, create=False), Watcher("r", "00000", 0))
    engine = Counting()
    worker = bench.worker(engine=engine, idle_seconds=600)

    async def scene() -> None:
        serving = asyncio.create_task(worker.serve())
        await until(lambda: engine.inside == 1)
        worker.loop.stop()
        await serving

    asyncio.run(asyncio.wait_for(scene(), PATIENCE))
    given_back = row(bench, "item-a")
    assert (given_back.state, given_back.attempts, given_back.dollars) == ("PLANNED", 0, 0.25)


@pytest.mark.usefixtures("a_second_for_each_attempt")
@pytest.mark.parametrize("deadline", [None, timedelta(seconds=4)], ids=["cancelled", "too late"])
def test_an_item_that_is_dropped_in_the_engine_has_cost_what_it_took(
    bench: WorkerFixture, tmp_path: Path, deadline: timedelta | None
) -> None:
    bench.feed("r", items=1)
    changes = {} if deadline is None else {"deadline": datetime.now(UTC) + deadline}
    never = json.dumps({"until": str(tmp_path / "never")})
    bench.send_item(bench.job("item-a", prompt=never, create=False, **changes), Watcher("r", "00000", 0))
    bench.worker(engine=Cancelling(bench) if deadline is None else Counting()).run()
    shard = bench.shard("r")
    assert (shard.done, shard.dollars) == (1, 0.25)
