"""A job from its message to its callback, and its errors, on moto."""

import asyncio
import itertools
import json
import math
import secrets
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.parsers import ResponseParserError

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.job import Job, JobMessage
from cosmos_batch.contract.metrics import FOREIGN_TOKENS
from cosmos_batch.contract.result import Result
from cosmos_batch.state import Attempt
from cosmos_batch.worker import attempt_endings, loop
from cosmos_batch.worker.logs import JsonLines
from tests.worker.conftest import ASSETS, STATE, WorkerFixture
from tests.worker.engines import PATIENCE, Counting, until


def test_a_job_ends_as_a_document_a_callback_and_a_row(bench: WorkerFixture) -> None:
    bench.send(bench.job(prompt="Was siehst du? 🤖\nSag es."))
    bench.worker().run()
    document = json.loads(bench.document("one"))
    assert document["result"] == "Was siehst du? 🤖\nSag es."
    assert document["userPrompt"] == document["question"] == document["result"]
    assert document["inputUri"] == f"s3://{ASSETS}/in/one.png"
    assert document["modelSize"] == "unknown", (
        "the name of the checkpoint's folder says none, and the pipeline's is not it"
    )
    assert document["inputFile"] == "one.png"
    assert document["batchJobId"] == "worker-1"
    assert document["engine"] == "scripted 1"
    assert "scripted engine is ready" in document["jobLogs"]
    assert "answered one" in document["jobLogs"]
    [call] = bench.stepfunctions.calls_of("success")
    assert call["taskToken"] == "token-one"
    assert json.loads(call["output"])["outputs"][0]["uri"] == f"s3://{ASSETS}/out/one.json"
    row = bench.jobs.get("one")
    assert row is not None
    assert (row.state, row.attempts, row.open_attempt) == ("SUCCEEDED", 1, None)
    assert {"planned", "started", "committed", "calledBack"} <= set(row.stages)
    assert bench.waiting() == (0, 0)
    head = bench.s3.head_object(Bucket=ASSETS, Key="out/one.json")
    assert head["Metadata"] == {"cosmos-batch-job": "one"}
    assert head["ContentType"] == "application/json"


def test_many_jobs_are_in_the_engine_at_once(bench: WorkerFixture, tmp_path: Path) -> None:
    together = tmp_path / "together"
    for n in range(12):
        bench.send(bench.job(f"job-{n}", prompt=json.dumps({"until": str(together)})))
    engine = Counting()

    def end_them_together() -> None:
        ends = time.monotonic() + PATIENCE
        while engine.most < 12 and time.monotonic() < ends:
            time.sleep(0.05)
        together.touch()

    Thread(target=end_them_together, daemon=True).start()
    bench.worker(engine=engine).run()
    assert engine.most == 12
    assert len(bench.stepfunctions.calls_of("success")) == 12


def test_a_message_delivered_twice_gives_one_result_and_one_callback(bench: WorkerFixture) -> None:
    job = bench.job()
    bench.send(job)
    bench.send(job)
    bench.worker().run()
    assert len(bench.stepfunctions.calls_of("success")) <= 2  # the second is TaskTimedOut on AWS
    assert len(bench.s3.list_object_versions(Bucket=ASSETS, Prefix="out/")["Versions"]) <= 2
    row = bench.jobs.get("one")
    assert row is not None and row.winner is not None
    assert bench.staged.read("one", row.winner) == bench.document("one")
    assert bench.waiting() == (0, 0)


def test_a_committed_job_is_reported_without_running_again(bench: WorkerFixture) -> None:
    job = bench.job()
    bench.send(job)
    first = bench.worker("first")
    bench.stepfunctions.broken["token-one"] = "AccessDeniedException"
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


def make_visible(bench: WorkerFixture, job: Job) -> None:
    """Send the message again, as after a lapsed lease; moto's clock cannot be set."""
    bench.sqs.purge_queue(QueueUrl=bench.queue_url)
    bench.send(job)


def test_after_the_callback_no_file_is_written_again(bench: WorkerFixture) -> None:
    """VAMS moves the document away. A late delivery of the message must not write it again."""
    job = bench.job()
    bench.send(job)
    bench.worker("first").run()
    bench.s3.delete_object(Bucket=ASSETS, Key="out/one.json")
    bench.stepfunctions.gone.add("token-one")  # a token that was answered gets the same error
    bench.send(job)
    bench.worker("second").run()
    assert bench.s3.list_objects_v2(Bucket=ASSETS, Prefix="out/")["KeyCount"] == 0
    row = bench.jobs.get("one")
    assert row is not None and row.state == "SUCCEEDED"
    assert bench.waiting() == (0, 0)


def test_each_live_task_token_of_a_job_gets_its_result(bench: WorkerFixture) -> None:
    """A job was planned again, and its old message, whose token was answered with that, was not deleted.

    The job is committed, its worker ends, and the old message is received first.
    """
    job = bench.job()
    bench.jobs.open_attempt("one", Attempt(id="first", worker="lost", solo=True))
    bench.jobs.commit("one", "first", Result(job_id="one"))
    bench.stepfunctions.gone.add("token-one")
    bench.send(job)
    bench.worker("first").run()
    row = bench.jobs.get("one")
    assert row is not None and row.state == "SUCCEEDED"
    message = JobMessage(schema_version=4, task_token="token-new", job=job)
    bench.sqs.send_message(QueueUrl=bench.queue_url, MessageBody=message.model_dump_json())
    engine = Counting()
    bench.worker("second", engine=engine).run()
    answered = [call["taskToken"] for call in bench.stepfunctions.calls_of("success")]
    assert (answered, engine.runs) == (["token-one", "token-new"], 0)
    assert bench.waiting() == (0, 0)


def test_a_job_that_was_closed_without_a_report_is_reported(bench: WorkerFixture) -> None:
    bench.send(bench.job())
    error = Error(code="NoCapacity", message="No GPU.", remedy="Wait.")
    bench.jobs.close("one", Result(job_id="one", error=error), cancelled=False)
    bench.worker().run()
    [call] = bench.stepfunctions.calls_of("failure")
    assert call["error"] == "NoCapacity"


def test_a_cancelled_job_stays_cancelled_after_its_worker_drops_it(bench: WorkerFixture) -> None:
    bench.send(bench.job(prompt=json.dumps({"seconds": 600})))
    engine = Counting()
    worker = bench.worker(engine=engine)

    async def scene() -> None:
        serving = asyncio.create_task(worker.serve())
        await until(lambda: engine.inside == 1)
        bench.jobs.close("one", Result(job_id="one"), cancelled=True)
        bench.stepfunctions.gone.add("token-one")
        await serving

    asyncio.run(asyncio.wait_for(scene(), PATIENCE))
    row = bench.jobs.get("one")
    assert row is not None
    assert row.state == "CANCELLED"


@pytest.mark.parametrize("state", ["CANCELLED", "gone"])
def test_a_job_whose_execution_is_gone_is_dropped(bench: WorkerFixture, state: str) -> None:
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
    assert bench.stepfunctions.calls_of("success") == bench.stepfunctions.calls_of("failure") == []
    assert bench.waiting() == (0, 0)


def test_a_stopped_execution_frees_its_place_in_the_engine(bench: WorkerFixture) -> None:
    bench.send(bench.job(prompt=json.dumps({"seconds": 600})))
    engine = Counting()
    worker = bench.worker(engine=engine)

    async def scene() -> None:
        serving = asyncio.create_task(worker.serve())
        await until(lambda: engine.inside == 1)
        bench.stepfunctions.gone.add("token-one")
        await until(lambda: engine.inside == 0)
        await serving

    asyncio.run(asyncio.wait_for(scene(), PATIENCE))
    row = bench.jobs.get("one")
    assert row is not None
    assert (row.winner, row.attempts) == (None, 0)
    assert bench.waiting() == (0, 0)


@pytest.mark.parametrize("code", ["ThrottlingException", "InternalServerError", "InvalidToken"])
def test_a_job_is_kept_when_a_heartbeat_has_no_clear_response(bench: WorkerFixture, code: str) -> None:
    bench.send(bench.job(prompt=json.dumps({"seconds": 1.5})))
    stepfunctions = bench.stepfunctions
    worker = bench.worker()
    original = stepfunctions.send_task_heartbeat

    def fail(**arguments: Any) -> None:
        original(**arguments)
        raise ClientError({"Error": {"Code": code, "Message": ""}}, "SendTaskHeartbeat")

    stepfunctions.send_task_heartbeat = fail  # type: ignore[method-assign]
    worker.run()
    assert len(stepfunctions.calls_of("heartbeat")) >= 2
    assert len(stepfunctions.calls_of("success")) == 1


@pytest.mark.parametrize("fault", [ResponseParserError("<html>"), RuntimeError("broken")], ids=["parser", "other"])
def test_a_broken_heartbeat_does_not_drop_the_job(bench: WorkerFixture, fault: Exception) -> None:
    """A response that cannot be parsed counts as none. Any other error leaves the message in the queue."""
    bench.send(bench.job(prompt=json.dumps({"seconds": 2.5})))
    stepfunctions = bench.stepfunctions
    original = stepfunctions.send_task_heartbeat

    def fail(**arguments: Any) -> None:
        original(**arguments)
        if len(stepfunctions.calls_of("heartbeat")) > 1:
            raise fault

    stepfunctions.send_task_heartbeat = fail  # type: ignore[method-assign]
    bench.worker().run()
    parsed = isinstance(fault, ResponseParserError)
    assert len(stepfunctions.calls_of("success")) == int(parsed)
    assert bench.waiting() == ((0, 0) if parsed else (0, 1))


def test_a_token_of_another_account_is_counted_as_a_metric(
    bench: WorkerFixture, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(**_arguments: Any) -> None:
        raise ClientError({"Error": {"Code": "InvalidToken", "Message": ""}}, "SendTaskHeartbeat")

    bench.stepfunctions.send_task_heartbeat = refuse  # type: ignore[method-assign]
    job = bench.job(prompt=json.dumps({"seconds": 1.5}))
    bench.send(job)
    bench.worker().run()
    call = [json.loads(JsonLines().format(record)) for record in caplog.records if hasattr(record, FOREIGN_TOKENS)]
    assert call[0][FOREIGN_TOKENS] == 1 and call[0]["pipeline"] == job.pipeline
    assert call[0]["_aws"]["CloudWatchMetrics"][0]["Metrics"] == [{"Name": FOREIGN_TOKENS, "Unit": "Count"}]


def test_a_job_past_its_deadline_fails_without_inference(bench: WorkerFixture) -> None:
    bench.send(bench.job(deadline=datetime.now(UTC) - timedelta(seconds=1)))
    engine = Counting()
    bench.worker(engine=engine).run()
    [call] = bench.stepfunctions.calls_of("failure")
    assert call["error"] == "TimedOut"
    assert json.loads(call["cause"])["remedy"]
    assert engine.most == 0


def test_an_attempt_that_takes_too_long_fails(bench: WorkerFixture) -> None:
    bench.send(bench.job(prompt=json.dumps({"seconds": 30})))
    bench.worker(attempt_limit_hours=0.5 / 3600).run()
    [call] = bench.stepfunctions.calls_of("failure")
    assert call["error"] == "TimedOut"


def test_a_fault_of_the_input_is_reported_without_another_attempt(bench: WorkerFixture) -> None:
    bench.send(bench.job(body=b"no picture at all"))
    bench.worker().run()
    [call] = bench.stepfunctions.calls_of("failure")
    assert call["error"] == "InvalidInput"
    row = bench.jobs.get("one")
    assert row is not None
    assert row.attempts == 1


def test_a_file_replaced_while_it_waited_is_refused(bench: WorkerFixture) -> None:
    job = bench.job()
    old = job.inputs[0].model_copy(update={"version_id": None, "etag": '"other"'})
    bench.send(job.model_copy(update={"input": old}))
    bench.worker().run()
    [call] = bench.stepfunctions.calls_of("failure")
    assert "replaced" in json.loads(call["cause"])["message"]


def test_a_file_that_may_not_be_read_is_refused(bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.send(bench.job())
    worker = bench.worker()

    def forbid(**_: Any) -> None:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": ""}}, "GetObject")

    monkeypatch.setattr(worker.runner.clients.s3, "get_object", forbid)
    worker.run()
    [call] = bench.stepfunctions.calls_of("failure")
    assert (call["error"], "may not be read" in call["cause"]) == ("InvalidInput", True)


def test_a_prompt_that_is_not_utf8_is_refused(bench: WorkerFixture) -> None:
    bench.s3.put_object(Bucket=STATE, Key="requests/one/prompt.txt", Body="é".encode("latin-1"))
    bench.send(bench.job(prompt=None, prompt_uri=f"s3://{STATE}/requests/one/prompt.txt"))
    bench.worker().run()
    [call] = bench.stepfunctions.calls_of("failure")
    assert (call["error"], "UTF-8" in call["cause"]) == ("InvalidInput", True)


def test_a_long_prompt_is_read_from_s3(bench: WorkerFixture) -> None:
    bench.s3.put_object(Bucket=STATE, Key="requests/one/prompt.txt", Body="Ünï".encode() * 9000)
    bench.send(bench.job(prompt=None, prompt_uri=f"s3://{STATE}/requests/one/prompt.txt"))
    bench.worker().run()
    assert json.loads(bench.document("one"))["userPrompt"] == "Ünï" * 9000


def test_a_document_has_the_callers_prompt_and_the_whole_question(bench: WorkerFixture) -> None:
    bench.send(bench.job(prompt="Locate the cube. Return JSON.", user_prompt="the cube"))
    bench.worker().run()
    document = json.loads(bench.document("one"))
    assert (document["userPrompt"], document["question"]) == ("the cube", "Locate the cube. Return JSON.")


def test_a_callers_long_prompt_is_read_from_s3(bench: WorkerFixture) -> None:
    bench.s3.put_object(Bucket=STATE, Key="requests/one/question.txt", Body="Locate ü".encode())
    bench.s3.put_object(Bucket=STATE, Key="requests/one/words.txt", Body="ü".encode())
    uris = {name: f"s3://{STATE}/requests/one/{name}.txt" for name in ("question", "words")}
    bench.send(bench.job(prompt=None, prompt_uri=uris["question"], user_prompt_uri=uris["words"]))
    bench.worker().run()
    document = json.loads(bench.document("one"))
    assert (document["userPrompt"], document["question"]) == ("ü", "Locate ü")


def test_a_job_of_an_older_version_has_no_separate_user_prompt(bench: WorkerFixture) -> None:
    """The job has only the fields that commit 0f4e7e0 wrote."""
    message = bench.job(prompt="Count.").model_dump(mode="json")
    assert message.pop("userPrompt") is None and message.pop("userPromptUri") is None
    assert not Job.model_validate(message).asks_more_than_the_caller


def test_a_worker_records_its_pace_and_number_of_jobs(bench: WorkerFixture) -> None:
    bench.send(bench.job(prompt=json.dumps({"seconds": 0.2})))
    bench.worker().run()
    row = bench.workers.get("worker-1")
    assert row is not None
    assert row.completed == 1
    assert "modelLoaded" in row.stages
    pipeline = bench.workers.pipeline()
    assert pipeline.seconds_per_unit is not None
    assert pipeline.seconds_per_unit >= 0.2
    assert (pipeline.waiting_jobs, pipeline.waiting_weight) == (0, 0)
    assert pipeline.cold_start_seconds is not None


def response(code: str, status: int, operation: str) -> ClientError:
    answer: Any = {"Error": {"Code": code, "Message": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, operation)


def failing(call: Any, error: Exception, times: float = math.inf) -> Any:
    """Return a function that raises `error` for the first `times` calls, then does what `call` does."""
    calls = itertools.count()

    def fail(*arguments: Any, **named: Any) -> Any:
        if next(calls) < times:
            raise error
        return call(*arguments, **named)

    return fail


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt_endings, "FIRST_WAIT", 0.05)
    monkeypatch.setattr(attempt_endings, "LONGEST_WAIT", 0.2)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("part", ["update", "commit", "put_object", "finish"])
def test_a_result_is_stored_again_until_aws_takes_it(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    bench.send(bench.job())
    engine = Counting()
    worker = bench.worker(engine=engine)
    committer = worker.runner.endings.committer
    owner: Any = {"put_object": committer.s3, "update": committer.documents.table}.get(part, bench.jobs)
    monkeypatch.setattr(owner, part, failing(getattr(owner, part), response("ServiceUnavailable", 503, part), 3))
    worker.run()
    row = bench.jobs.get("one")
    assert row is not None
    assert (row.state, row.attempts, engine.runs) == ("SUCCEEDED", 1, 1)
    assert bench.document("one")
    assert bench.waiting() == (0, 0)


@pytest.mark.parametrize("bucket", [STATE, ASSETS])
def test_a_result_that_s3_refuses_fails_its_job_after_one_inference(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch, bucket: str
) -> None:
    """The state bucket gets documents that are too large for a row, and the asset bucket all of them."""
    bench.send(bench.job(prompt=secrets.token_hex(50_000) if bucket == STATE else "What?"))
    engine = Counting()
    worker = bench.worker(engine=engine)
    monkeypatch.setattr(
        worker.runner.endings.committer.s3, "put_object", failing(None, response("AccessDenied", 403, "PutObject"))
    )
    worker.run()
    row = bench.jobs.get("one")
    assert row is not None and row.result is not None and row.result.error is not None
    assert (row.state, row.attempts, engine.runs) == ("FAILED", 1, 1)
    assert f"s3:PutObject on bucket {bucket}" in row.result.error.message
    [call] = bench.stepfunctions.calls_of("failure")
    assert (call["error"], bench.stepfunctions.calls_of("success")) == ("Internal", [])
    assert bench.waiting() == (0, 0)


@pytest.mark.usefixtures("impatient")
def test_a_result_that_cannot_be_stored_until_the_deadline_fails_its_job(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.send(bench.job(deadline=datetime.now(UTC) + timedelta(seconds=8)))
    engine = Counting()
    worker = bench.worker(engine=engine)
    unavailable = response("ServiceUnavailable", 503, "UpdateItem")
    monkeypatch.setattr(worker.runner.endings.committer.documents.table, "update", failing(None, unavailable))
    worker.run()
    row = bench.jobs.get("one")
    assert row is not None and row.result is not None and row.result.error is not None
    assert (row.state, engine.runs) == ("FAILED", 1)
    assert "ServiceUnavailable" in row.result.error.message


def test_an_attempt_whose_end_cannot_be_committed_counts(bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.send(bench.job())
    worker = bench.worker()
    monkeypatch.setattr(bench.jobs, "commit", failing(None, response("AccessDeniedException", 400, "UpdateItem")))
    worker.run()
    row = bench.jobs.get("one")
    assert row is not None and row.last_error is not None
    assert (row.state, row.winner, row.attempts) == ("PLANNED", None, 1)
    assert "AccessDeniedException" in row.last_error.message
    assert bench.waiting() == (0, 1), "its lease lapses by itself"


@pytest.mark.usefixtures("impatient")
def test_a_stopped_execution_or_worker_ends_the_tries_to_store(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "STOP_SECONDS", 0.2)
    for name in ("stopped", "kept"):
        bench.send(bench.job(name))
    worker = bench.worker(idle_seconds=600)
    tries: list[str] = []

    def keep(pk: str, *_: Any) -> None:
        tries.append(pk)
        raise response("ServiceUnavailable", 503, "UpdateItem")

    monkeypatch.setattr(worker.runner.endings.committer.documents.table, "update", keep)

    async def scene() -> None:
        serving = asyncio.create_task(worker.serve())
        await until(lambda: len(set(tries)) == 2)
        bench.stepfunctions.gone.add("token-stopped")
        await until(lambda: bench.waiting() == (0, 1))
        worker.loop.stop()
        await serving

    asyncio.run(asyncio.wait_for(scene(), PATIENCE))
    assert (bench.attempts("stopped"), bench.attempts("kept")) == (0, 0)
    assert bench.waiting() == (1, 0), "the job of the stopped worker is visible again at once"
