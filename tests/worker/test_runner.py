"""A worker takes a job from its message to its callback, or to an error with a remedy, on moto."""

import asyncio
import json
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread, current_thread
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from cosmos_batch.contract.error import Error, too_late
from cosmos_batch.contract.job import Job, JobMessage
from cosmos_batch.contract.result import Result
from cosmos_batch.state import Attempt, StagedDocuments
from cosmos_batch.worker import attempt_endings
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


def test_a_worker_does_not_read_back_the_document_that_it_has_made(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StagedDocuments, "read", lambda *_: pytest.fail("the document was read"))
    bench.send(bench.job())
    bench.worker().run()
    assert json.loads(bench.document("one"))["result"] == "What?"


def test_a_document_is_published_from_memory_after_a_commit_whose_response_was_lost(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt finds out that it has won itself."""
    monkeypatch.setattr(attempt_endings, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(StagedDocuments, "read", lambda *_: pytest.fail("the document was read"))
    commit, lost = bench.jobs.commit, ReadTimeoutError(endpoint_url="https://dynamodb")

    def commit_without_a_response(*arguments: Any) -> None:
        commit(*arguments)
        raise lost

    monkeypatch.setattr(bench.jobs, "commit", commit_without_a_response)
    bench.send(bench.job())
    bench.worker().run()
    assert json.loads(bench.document("one"))["result"] == "What?"
    row = bench.jobs.get("one")
    assert row is not None and row.state == "SUCCEEDED"


def test_an_attempt_ends_before_the_folder_of_its_job_is_removed_in_a_thread(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attempt that has failed, and is cancelled while its folder is removed, would be given back once more."""
    threads: dict[str, Thread] = {}
    ended = Event()

    class Noted(tempfile.TemporaryDirectory[str]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            threads["made"] = current_thread()
            super().__init__(*arguments, **options)

        def cleanup(self) -> None:
            threads["removed"] = current_thread()
            assert ended.wait(PATIENCE)
            super().cleanup()

    monkeypatch.setattr(tempfile, "TemporaryDirectory", Noted)
    monkeypatch.setattr(tempfile, "tempdir", str(bench.folder))
    bench.send(bench.job(prompt='{"raise": "out of memory"}'))
    worker = bench.worker(max_attempts=2, idle_seconds=600)
    given_back: list[tuple[Any, ...]] = []
    give_back = worker.runner.queue.give_back

    def hide(handle: str, *arguments: Any) -> None:
        given_back.append((handle, *arguments))
        give_back(handle, 600)  # so that no second attempt begins before the worker stops

    monkeypatch.setattr(worker.runner.queue, "give_back", hide)

    async def scene() -> None:
        serving = asyncio.ensure_future(worker.serve())
        await until(lambda: "removed" in threads)
        worker.loop.stop()
        await serving
        ended.set()

    asyncio.run(asyncio.wait_for(scene(), PATIENCE))
    assert len(given_back) == 1
    row = bench.jobs.get("one")
    assert row is not None
    assert (row.attempts, row.give_backs) == (1, 0), "it has failed once, and was not given back"
    assert threads.keys() == {"made", "removed"} and current_thread() not in threads.values()
    assert not list(bench.folder.glob("job-*")), "it is gone, in spite of the error"


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


def test_a_job_past_its_deadline_fails_without_inference(bench: WorkerFixture) -> None:
    job = bench.job(deadline=datetime.now(UTC) - timedelta(seconds=1))
    bench.send(job)
    engine = Counting()
    bench.worker(engine=engine).run()
    [call] = bench.stepfunctions.calls_of("failure")
    assert Error.model_validate_json(call["cause"]) == too_late(job.deadline)
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
