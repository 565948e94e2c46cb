"""The loop and the protocol of a worker, in one process, on moto."""

import asyncio
import json
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cosmos_batch.contract import Answer, Error, Failure, Job, Result
from cosmos_batch.state import Attempt
from cosmos_batch.store import StoredModel
from cosmos_batch.worker import inputs
from cosmos_batch.worker import worker as worker_module
from tests.e2e.scripted_engine import ScriptedEngine
from tests.worker.conftest import ASSETS, STATE, Bench


async def until(condition: Any, seconds: float = 10) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


def test_a_job_ends_as_a_document_a_callback_and_a_row(bench: Bench) -> None:
    bench.send(bench.job(prompt="Was siehst du? 🤖\nSag es."))
    bench.worker().run()
    document = json.loads(bench.document("one"))
    assert document["result"] == "Was siehst du? 🤖\nSag es."
    assert document["userPrompt"] == document["result"]
    assert document["modelSize"] == "2B"
    assert document["inputFile"] == "one.png"
    assert document["batchJobId"] == "worker-1"
    assert document["engine"] == "scripted 1"
    assert "scripted engine is ready" in document["jobLogs"]
    assert "answered one" in document["jobLogs"]
    [told] = bench.stepfunctions.said("success")
    assert told["taskToken"] == "token-one"
    assert json.loads(told["output"])["outputs"][0]["uri"] == f"s3://{ASSETS}/out/one.json"
    row = bench.jobs.get("one")
    assert row is not None
    assert (row.state, row.attempts, row.open_attempt) == ("SUCCEEDED", 1, None)
    assert {"planned", "started", "committed", "calledBack"} <= set(row.stages)
    assert bench.waiting() == (0, 0)
    head = bench.s3.head_object(Bucket=ASSETS, Key="out/one.json")
    assert head["Metadata"] == {"cosmos-batch-job": "one"}
    assert head["ContentType"] == "application/json"


def test_many_jobs_are_in_the_engine_at_once(bench: Bench) -> None:
    for n in range(12):
        bench.send(bench.job(f"job-{n}", prompt=json.dumps({"seconds": 0.5})))
    engine = Counting()
    bench.worker(engine=engine).run()
    assert engine.most == 12
    assert len(bench.stepfunctions.said("success")) == 12


class Counting(ScriptedEngine):
    """Counts how many jobs are in it, and how many were at most."""

    inside = most = 0

    async def run(self, job: Job, workdir: Path) -> Answer:
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            return await super().run(job, workdir)
        finally:
            self.inside -= 1


def test_the_same_message_twice_is_one_result_and_one_callback(bench: Bench) -> None:
    job = bench.job()
    bench.send(job)
    bench.send(job)
    bench.worker().run()
    assert len(bench.stepfunctions.said("success")) <= 2  # the second is TaskTimedOut on AWS
    assert len(bench.s3.list_object_versions(Bucket=ASSETS, Prefix="out/")["Versions"]) <= 2
    row = bench.jobs.get("one")
    assert row is not None
    documents = [
        version["Key"]
        for version in bench.s3.list_objects_v2(Bucket=STATE, Prefix=f"jobs/one/{row.winner}")["Contents"]
    ]
    assert len(documents) == 1
    assert bench.waiting() == (0, 0)


def test_a_job_that_was_committed_but_not_told_is_finished_without_the_engine(bench: Bench) -> None:
    job = bench.job()
    bench.send(job)
    first = bench.worker("first")
    bench.stepfunctions.broken["token-one"] = "ThrottlingException"
    first.run()
    row = bench.jobs.get("one")
    assert row is not None
    assert row.state == "COMMITTED"
    del bench.stepfunctions.broken["token-one"]
    make_visible(bench, job)
    engine = Counting()
    bench.worker("second", engine=engine).run()
    assert engine.most == 0
    row = bench.jobs.get("one")
    assert row is not None
    assert row.state == "SUCCEEDED"


def make_visible(bench: Bench, job: Job) -> None:
    """As if the lease had lapsed: the message is sent again, for moto cannot turn its clock."""
    bench.sqs.purge_queue(QueueUrl=bench.queue_url)
    bench.send(job)


def test_after_the_callback_nothing_is_written_again(bench: Bench) -> None:
    """VAMS moves the document away; a late delivery of the message must not bring it back."""
    job = bench.job()
    bench.send(job)
    bench.worker("first").run()
    bench.s3.delete_object(Bucket=ASSETS, Key="out/one.json")
    bench.send(job)
    bench.worker("second").run()
    assert bench.s3.list_objects_v2(Bucket=ASSETS, Prefix="out/")["KeyCount"] == 0
    assert len(bench.stepfunctions.said("success")) == 1
    assert bench.waiting() == (0, 0)


def test_closed_by_one_who_could_not_say_so_a_job_is_told_all_the_same(bench: Bench) -> None:
    bench.send(bench.job())
    error = Error(code="NoCapacity", message="No GPU.", remedy="Wait.")
    bench.jobs.close("one", Result(job_id="one", error=error), cancelled=False)
    bench.worker().run()
    [told] = bench.stepfunctions.said("failure")
    assert told["error"] == "NoCapacity"


def test_a_cancelled_job_stays_cancelled_when_its_worker_lets_go(bench: Bench) -> None:
    bench.send(bench.job(prompt=json.dumps({"seconds": 60})))
    engine = Counting()
    hand = bench.worker(engine=engine)

    async def scene() -> None:
        serving = asyncio.create_task(hand.serve())
        await until(lambda: engine.inside == 1)
        bench.jobs.close("one", Result(job_id="one"), cancelled=True)
        bench.stepfunctions.gone.add("token-one")
        await serving

    asyncio.run(asyncio.wait_for(scene(), 20))
    row = bench.jobs.get("one")
    assert row is not None
    assert row.state == "CANCELLED"


@pytest.mark.parametrize("state", ["CANCELLED", "gone"])
def test_a_job_that_nobody_waits_for_is_dropped(bench: Bench, state: str) -> None:
    bench.send(bench.job())
    if state == "gone":
        bench.stepfunctions.gone.add("token-one")
    else:
        error = Error(code="Cancelled", message="Stopped.", remedy="Start it again.")
        bench.jobs.close("one", Result(job_id="one", error=error), cancelled=True)
        bench.stepfunctions.gone.add("token-one")
    engine = Counting()
    bench.worker(engine=engine).run()
    assert engine.most == 0
    assert bench.stepfunctions.said("success") == bench.stepfunctions.said("failure") == []
    assert bench.waiting() == (0, 0)


def test_an_execution_that_is_stopped_frees_its_place_in_the_engine(bench: Bench) -> None:
    bench.send(bench.job(prompt=json.dumps({"seconds": 60})))
    engine = Counting()
    hand = bench.worker(engine=engine)

    async def scene() -> None:
        serving = asyncio.create_task(hand.serve())
        await until(lambda: engine.inside == 1)
        bench.stepfunctions.gone.add("token-one")
        await until(lambda: engine.inside == 0)
        await serving

    asyncio.run(asyncio.wait_for(scene(), 20))
    row = bench.jobs.get("one")
    assert row is not None
    assert (row.winner, row.attempts) == (None, 0)
    assert bench.waiting() == (0, 0)


@pytest.mark.parametrize("code", ["ThrottlingException", "InternalServerError", "InvalidToken"])
def test_a_heartbeat_without_a_clear_answer_drops_nothing(bench: Bench, code: str) -> None:
    bench.send(bench.job(prompt=json.dumps({"seconds": 1.5})))
    stepfunctions = bench.stepfunctions
    hand = bench.worker()
    original = stepfunctions.send_task_heartbeat

    def fail(**arguments: Any) -> None:
        original(**arguments)
        raise ClientError({"Error": {"Code": code, "Message": ""}}, "SendTaskHeartbeat")

    stepfunctions.send_task_heartbeat = fail  # type: ignore[method-assign]
    hand.run()
    assert len(stepfunctions.said("heartbeat")) >= 2
    assert len(stepfunctions.said("success")) == 1


def test_past_its_deadline_a_job_fails_without_inference(bench: Bench) -> None:
    bench.send(bench.job(deadline=datetime.now(UTC) - timedelta(seconds=1)))
    engine = Counting()
    bench.worker(engine=engine).run()
    [told] = bench.stepfunctions.said("failure")
    assert told["error"] == "TimedOut"
    assert json.loads(told["cause"])["remedy"]
    assert engine.most == 0


def test_an_attempt_that_takes_too_long_fails(bench: Bench) -> None:
    bench.send(bench.job(prompt=json.dumps({"seconds": 30})))
    bench.worker(attempt_limit_hours=0.5 / 3600).run()
    [told] = bench.stepfunctions.said("failure")
    assert told["error"] == "TimedOut"


def test_an_engine_that_fails_is_tried_again_and_then_no_more(bench: Bench) -> None:
    bench.send(bench.job(prompt=json.dumps({"raise": "CUDA error 700"})))
    bench.worker(max_attempts=2).run()
    [told] = bench.stepfunctions.said("failure")
    assert told["error"] == "EngineFailed"
    assert "CUDA error 700" in json.loads(told["cause"])["message"]
    row = bench.jobs.get("one")
    assert row is not None
    assert (row.attempts, row.suspect, row.state) == (2, True, "FAILED")


def test_a_fault_of_the_input_is_told_once_and_never_tried_again(bench: Bench) -> None:
    bench.send(bench.job(body=b"no picture at all"))
    bench.worker().run()
    [told] = bench.stepfunctions.said("failure")
    assert told["error"] == "InvalidInput"
    row = bench.jobs.get("one")
    assert row is not None
    assert row.attempts == 1


def test_a_file_replaced_while_it_waited_is_refused(bench: Bench) -> None:
    job = bench.job()
    old = job.input.model_copy(update={"version_id": None, "etag": '"other"'})
    bench.send(job.model_copy(update={"input": old}))
    bench.worker().run()
    [told] = bench.stepfunctions.said("failure")
    assert "replaced" in json.loads(told["cause"])["message"]


def test_a_file_that_may_not_be_read_is_refused(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.send(bench.job())
    hand = bench.worker()

    def forbid(**_: Any) -> None:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": ""}}, "GetObject")

    monkeypatch.setattr(hand.runner.clients.s3, "get_object", forbid)
    hand.run()
    [told] = bench.stepfunctions.said("failure")
    assert (told["error"], "may not be read" in told["cause"]) == ("InvalidInput", True)


def test_a_prompt_that_is_no_text_is_refused(bench: Bench) -> None:
    bench.s3.put_object(Bucket=STATE, Key="requests/one/prompt.txt", Body="é".encode("latin-1"))
    bench.send(bench.job(prompt=None, prompt_uri=f"s3://{STATE}/requests/one/prompt.txt"))
    bench.worker().run()
    [told] = bench.stepfunctions.said("failure")
    assert (told["error"], "UTF-8" in told["cause"]) == ("InvalidInput", True)


def test_media_that_kills_while_it_is_looked_at_has_an_attempt_open(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.send(bench.job())
    seen: list[Any] = []

    def look(path: Path) -> None:
        seen.append(bench.jobs.get("one"))
        raise Failure("InvalidInput", "broken", "mend it")

    monkeypatch.setattr(inputs, "probe", look)
    bench.worker().run()
    assert seen[0].open_attempt is not None


def test_a_long_prompt_is_read_from_where_it_lies(bench: Bench) -> None:
    bench.s3.put_object(Bucket=STATE, Key="requests/one/prompt.txt", Body="Ünï".encode() * 9000)
    bench.send(bench.job(prompt=None, prompt_uri=f"s3://{STATE}/requests/one/prompt.txt"))
    bench.worker().run()
    assert json.loads(bench.document("one"))["userPrompt"] == "Ünï" * 9000


def lost_attempt(bench: Bench, name: str, solo: bool) -> None:
    """As a worker leaves a job that it died on."""
    bench.jobs.open_attempt(name, Attempt(id="lost", worker="dead", solo=solo))


def test_an_attempt_lost_among_others_is_not_counted_but_makes_a_suspect(bench: Bench) -> None:
    bench.send(bench.job())
    lost_attempt(bench, "one", solo=False)
    bench.worker().run()
    row = bench.jobs.get("one")
    assert row is not None
    assert (row.state, row.attempts, row.suspect) == ("SUCCEEDED", 1, True)


def test_a_job_that_killed_the_engine_alone_as_often_as_it_may_fails(bench: Bench) -> None:
    bench.send(bench.job())
    for _ in range(3):
        lost_attempt(bench, "one", solo=True)
    engine = Counting()
    bench.worker(engine=engine).run()
    [told] = bench.stepfunctions.said("failure")
    assert told["error"] == "EngineFailed"
    assert "3 times" in json.loads(told["cause"])["message"]
    assert engine.most == 0


def test_suspects_run_alone(bench: Bench) -> None:
    for n in range(6):
        bench.send(bench.job(f"job-{n}", prompt=json.dumps({"seconds": 0.1})))
        lost_attempt(bench, f"job-{n}", solo=False)
    engine = Counting()
    bench.worker(engine=engine).run()
    assert engine.most == 1
    assert len(bench.stepfunctions.said("success")) == 6


class Meeting(ScriptedEngine):
    """Answers with its own name, when as many jobs are in engines of this kind as were expected."""

    concurrency = 1
    inside = 0
    expected = 2

    def __init__(self, name: str) -> None:
        super().__init__()
        self._own = name

    async def run(self, job: Job, workdir: Path) -> Answer:
        Meeting.inside += 1
        await until(lambda: Meeting.inside >= Meeting.expected)
        answer = await super().run(job, workdir)
        return answer.model_copy(update={"text": self._own})


def test_two_workers_in_one_job_at_once_make_one_result(bench: Bench) -> None:
    """Delivered twice, as SQS may: each of the two has an answer of its own, and both are done at the same time."""
    Meeting.inside = 0
    job = bench.job()
    bench.send(job)
    bench.send(job)
    hands = [bench.worker(name, engine=Meeting(name)) for name in ("first", "second")]

    async def both() -> None:
        await asyncio.gather(*(hand.serve() for hand in hands))

    asyncio.run(asyncio.wait_for(both(), 30))
    assert Meeting.inside == 2, "both ran"
    row = bench.jobs.get("one")
    assert row is not None
    assert row.state == "SUCCEEDED"
    winners = json.loads(bench.s3.get_object(Bucket=STATE, Key=f"jobs/one/{row.winner}/document.json")["Body"].read())
    versions = bench.s3.list_object_versions(Bucket=ASSETS, Prefix="out/")["Versions"]
    assert len({version["ETag"] for version in versions}) == 1, "only the winner's document was ever written"
    assert json.loads(bench.document("one"))["result"] == winners["result"]
    outputs = {told["output"] for told in bench.stepfunctions.said("success")}
    assert len(outputs) == 1, "whoever tells, tells of the winner"


@pytest.mark.parametrize("experienced", [False, True])
def test_told_to_stop_a_worker_finishes_what_fits_and_gives_back_the_rest(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, experienced: bool
) -> None:
    monkeypatch.setattr(worker_module, "STOP_SECONDS", 5)
    if experienced:
        bench.send(bench.job("quick", prompt=json.dumps({"seconds": 0.1})))
    engine = Counting()
    hand = bench.worker(engine=engine, idle_seconds=60)

    async def scene() -> None:
        serving = asyncio.create_task(hand.serve())
        await until(lambda: len(bench.stepfunctions.said("success")) == int(experienced))
        bench.send(bench.job(prompt=json.dumps({"seconds": 1})))
        await until(lambda: engine.inside == 1)
        hand.worker.stop()
        await serving

    asyncio.run(asyncio.wait_for(scene(), 20))
    row = bench.jobs.get("one")
    assert row is not None
    if experienced:
        assert row.state == "SUCCEEDED"
    else:
        assert (row.state, row.attempts, row.open_attempt) == ("PLANNED", 0, None)
        assert bench.waiting() == (1, 0), "visible again at once"


def test_messages_that_arrive_while_it_stops_are_given_back(bench: Bench) -> None:
    hand = bench.worker(idle_seconds=60)

    async def scene() -> None:
        serving = asyncio.create_task(hand.serve())
        await until(lambda: hand.worker._idle_for(0))
        hand.worker.stop()
        bench.send(bench.job())
        await serving

    asyncio.run(asyncio.wait_for(scene(), 20))
    row = bench.jobs.get("one")
    assert row is not None
    assert (row.state, row.attempts) == ("PLANNED", 0)
    assert bench.waiting() == (1, 0)


def test_told_to_stop_while_it_drains_a_worker_gives_back(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "STOP_SECONDS", 1)
    bench.send(bench.job(prompt=json.dumps({"seconds": 30})))
    engine = Counting()
    hand = bench.worker(engine=engine, idle_seconds=60)

    async def scene() -> None:
        serving = asyncio.create_task(hand.serve())
        await until(lambda: engine.inside == 1)
        hand.worker._draining = True
        hand.worker._wake.set()
        await asyncio.sleep(1.5)
        assert not serving.done()
        hand.worker.stop()
        await serving

    asyncio.run(asyncio.wait_for(scene(), 15))
    row = bench.jobs.get("one")
    assert row is not None
    assert (row.state, row.attempts) == ("PLANNED", 0)


def test_stopped_while_an_attempt_is_opened_none_is_spent(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.send(bench.job())
    hand = bench.worker(idle_seconds=60)
    opening = threading.Event()
    open_attempt = bench.jobs.open_attempt

    def slowly(job_id: str, attempt: Attempt) -> Any:
        opening.set()
        time.sleep(2.5)  # longer than the receive that is awaited first
        return open_attempt(job_id, attempt)

    monkeypatch.setattr(bench.jobs, "open_attempt", slowly)

    async def scene() -> None:
        serving = asyncio.create_task(hand.serve())
        await until(opening.is_set)
        hand.worker.stop()
        await serving

    asyncio.run(asyncio.wait_for(scene(), 15))
    row = bench.jobs.get("one")
    assert row is not None
    assert (row.state, row.attempts, row.open_attempt) == ("PLANNED", 0, None)


def test_what_was_received_in_the_moment_of_stopping_is_given_back(bench: Bench) -> None:
    """Its task has not taken a step yet, and must give its message back all the same."""
    hand = bench.worker(idle_seconds=60)
    begin = hand.worker._begin

    async def begin_and_stop(message: dict[str, str]) -> None:
        await begin(message)
        hand.worker.stop()

    hand.worker._begin = begin_and_stop  # type: ignore[method-assign]
    bench.send(bench.job())
    hand.run()
    row = bench.jobs.get("one")
    assert row is not None
    assert (row.state, row.attempts) == ("PLANNED", 0)
    assert bench.waiting() == (1, 0)


def test_a_renewed_model_is_backed_up_too(bench: Bench) -> None:
    bench.send(bench.job(invalidate_model=True))
    store = OldModel(datetime.now(UTC) - timedelta(days=1))
    with_hub_model(bench, store).run()
    assert store.backed_up == ["commit-0", "commit-1"]


def test_a_job_of_newer_code_is_given_back_and_the_worker_drains(bench: Bench) -> None:
    bench.sqs.send_message(
        QueueUrl=bench.queue_url, MessageBody=json.dumps({"schemaVersion": 2, "taskToken": "t", "job": {}})
    )
    bench.worker(idle_seconds=60).run(seconds=15)
    assert bench.waiting() == (1, 0)


def test_asked_to_drain_a_worker_finishes_what_it_has_and_leaves(bench: Bench) -> None:
    bench.send(bench.job(prompt=json.dumps({"seconds": 2})))
    hand = bench.worker(idle_seconds=600)
    bench.workers.must_drain("worker-1")
    hand.run()
    assert len(bench.stepfunctions.said("success")) == 1
    row = bench.workers.get("worker-1")
    assert row is not None
    assert row.state == "DRAINING"


def test_before_it_leaves_a_worker_says_so_and_looks_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    hand = bench.worker()
    draining = bench.workers.draining

    def say_and_send(name: str) -> None:
        draining(name)
        if not bench.stepfunctions.told:
            bench.send(bench.job())

    monkeypatch.setattr(bench.workers, "draining", say_and_send)
    hand.run()
    assert len(bench.stepfunctions.said("success")) == 1


def test_a_worker_notes_its_pace_and_what_it_completed(bench: Bench) -> None:
    bench.send(bench.job(prompt=json.dumps({"seconds": 0.2})))
    bench.worker().run()
    row = bench.workers.get("worker-1")
    assert row is not None
    assert row.completed == 1
    assert "modelLoaded" in row.stages
    pipeline = bench.workers.pipeline()
    assert pipeline.seconds_per_item is not None
    assert pipeline.seconds_per_item >= 0.2
    assert pipeline.cold_start_seconds is not None


class OldModel:
    """A store whose model is as old as it is told, until a newer one is asked for."""

    def __init__(self, published_at: datetime, fails: bool = False) -> None:
        self.published_at = published_at
        self.fails = fails
        self.downloads = 0
        self.backed_up: list[str] = []

    def ensure(self, model: str, newer_than: datetime | None = None) -> StoredModel:
        if newer_than is not None and self.published_at <= newer_than:
            self.downloads += 1
            if self.fails:
                raise Failure("ModelUnavailable", "The licence was withdrawn.", "Accept it again.")
            self.published_at = datetime.now(UTC)
        return StoredModel(model, f"commit-{self.downloads}", Path("/nowhere"), self.published_at)

    def back_up(self, stored: StoredModel) -> bool:
        self.backed_up.append(stored.commit)
        return True


def with_hub_model(bench: Bench, store: OldModel) -> Any:
    hand = bench.worker(store=store)
    hand.model._model = "nvidia/Cosmos-Reason2-2B"
    return hand


def test_jobs_that_ask_for_a_new_model_get_one_between_them(bench: Bench) -> None:
    for n in range(5):
        bench.send(bench.job(f"job-{n}", invalidate_model=True))
    bench.send(bench.job("plain"))
    store = OldModel(datetime.now(UTC) - timedelta(days=1))
    with_hub_model(bench, store).run()
    assert store.downloads == 1
    for n in range(5):
        assert json.loads(bench.document(f"job-{n}"))["revision"] == "commit-1"


def test_no_job_enters_an_engine_whose_renewal_failed(bench: Bench) -> None:
    for n in range(4):
        bench.send(bench.job(f"plain-{n}", prompt=json.dumps({"seconds": 0.3})))
    bench.send(bench.job("asks", invalidate_model=True))
    for n in range(4, 8):
        bench.send(bench.job(f"plain-{n}"))
    hand = with_hub_model(bench, OldModel(datetime.now(UTC) - timedelta(days=1), fails=True))

    async def scene() -> None:
        with pytest.raises(Failure):
            await hand.serve()

    asyncio.run(asyncio.wait_for(scene(), 20))
    assert bench.stepfunctions.said("failure") == []
    for n in range(8):
        row = bench.jobs.get(f"plain-{n}")
        assert row is not None
        assert row.open_attempt is None
        assert (row.state, row.attempts) in (("SUCCEEDED", 1), ("PLANNED", 0))


def test_a_new_model_that_cannot_be_had_fails_whoever_asked(bench: Bench) -> None:
    bench.send(bench.job(invalidate_model=True))
    hand = with_hub_model(bench, OldModel(datetime.now(UTC) - timedelta(days=1), fails=True))

    async def scene() -> None:
        with pytest.raises(Failure) as raised:
            await hand.serve()
        assert await hand.worker.fail_backlog(raised.value.error) == 1

    asyncio.run(asyncio.wait_for(scene(), 20))
    [told] = bench.stepfunctions.said("failure")
    assert told["error"] == "ModelUnavailable"


def test_who_cannot_load_for_good_fails_the_backlog_with_the_reason(bench: Bench) -> None:
    for n in range(15):
        bench.send(bench.job(f"job-{n}"))
    (bench.folder / "refuses").touch()
    hand = bench.worker()

    async def scene() -> None:
        with pytest.raises(Failure) as raised:
            await hand.serve()
        assert await hand.worker.fail_backlog(raised.value.error) == 15

    asyncio.run(asyncio.wait_for(scene(), 20))
    told = bench.stepfunctions.said("failure")
    assert len(told) == 15
    assert {one["error"] for one in told} == {"ModelUnavailable"}
    assert bench.waiting() == (0, 0)


def test_a_fault_of_aws_leaves_the_job_to_another_try(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.send(bench.job())
    hand = bench.worker()

    def refuse(**_: Any) -> None:
        raise ClientError({"Error": {"Code": "InternalError", "Message": ""}}, "PutObject")

    monkeypatch.setattr(hand.runner.committer.s3, "put_object", refuse)
    hand.run()
    row = bench.jobs.get("one")
    assert row is not None
    assert (row.state, row.winner, row.attempts) == ("PLANNED", None, 0)
    assert bench.waiting() == (0, 1), "its lease lapses by itself"
