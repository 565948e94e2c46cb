"""A call of VAMS on several files is one run, which answers every token of VAMS once (decision 034)."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.client import BaseClient

from cosmos_batch.contract.environment import VamsEnvironment
from cosmos_batch.contract.error import Error, Failure
from cosmos_batch.contract.runs import ShardRef
from cosmos_batch.state import Groups
from lambdas.handlers import finish_run
from lambdas.runs import finish
from lambdas.vams import answers, start_jobs
from tests.lambdas.cloud import STATE_BUCKET, Cloud, event, sqs_batch
from tests.lambdas.runs.conftest import RunFixture, bench
from tests.lambdas.vams.test_answers import failure, group_of_files
from tests.lambdas.vams.test_manifest import FILES
from tests.lambdas.vams.test_manifest import call as call_of_vams
from tests.support.runs import read_shards

__all__ = ["bench"]  # the fixture

PERMANENT = failure("InvalidInput", "It is no video.")
PASSING = failure("EngineFailed", "The engine died.", retryable=True)


class Workflow:
    """A workflow of VAMS on two files, and what our state machine does with its run."""

    def __init__(self, bench: RunFixture) -> None:
        self.bench = bench
        self.cloud: Cloud = bench.cloud
        manifest = event("vams_26_manifest")
        for file in manifest["inputFiles"]:
            file["versionId"] = ""
            self.cloud.put(file["key"])
        self.manifest = manifest

    def call(self, token: str) -> str:
        """Invoke the function; return the name of the latest execution of ours."""
        call_of_vams(self.cloud, manifest=self.manifest, TaskToken=token)
        return str(self.runs()[-1])

    def runs(self) -> list[str]:
        return [execution["name"] for execution in self.cloud.executions()]

    def begin(self, run: str) -> ShardRef:
        """Prepare a run and feed its only shard."""
        self.bench.prepare({"id": run}, execution=run)
        [ref] = read_shards(self.cloud.s3, STATE_BUCKET, run)
        self.bench.feed(ref, token=f"shard of {run}", execution=run)
        return ref

    def infer(self, *errors: Error | None) -> list[str]:
        """Answer the queue's messages, in the order of the files' names, and delete them; return the jobs' ids."""
        received = self.cloud.sqs.receive_message(QueueUrl=self.cloud.jobs_queue, MaxNumberOfMessages=10)
        messages = {one["ReceiptHandle"]: json.loads(one["Body"])["job"] for one in received.get("Messages", [])}
        jobs = sorted(messages.values(), key=lambda job: str(job["input"]["key"]))
        for job, error in zip(jobs, errors, strict=True):
            self.bench.answer(job["jobId"], error)
        for handle in messages:
            self.cloud.sqs.delete_message(QueueUrl=self.cloud.jobs_queue, ReceiptHandle=handle)
        return [str(job["jobId"]) for job in jobs]

    def end(self, run: str, **error: str) -> None:
        """Call `finish_run` as the state machine does."""
        execution = {**self.bench.execution(run), "input": {"run": {"id": run}}}
        finish_run.handler({"execution": execution, **({"error": error} if error else {})}, None)

    def stop(self, run: str) -> None:
        """Let `finish_run` end a run whose execution a person has stopped."""
        assert self.tell_of_stop(run) == {"batchItemFailures": []}

    def tell_of_stop(self, run: str, status: str = "ABORTED") -> Any:
        """Tell `finish_run` with which status the execution has ended, as EventBridge does; return its answer."""
        detail = {"name": run, "status": status, "executionArn": f"arn:{run}", "cause": "by a person"}
        request = json.dumps({"run": {"id": run}})
        return finish_run.handler(sqs_batch({"detail": {**detail, "input": request}}), None)

    def done(self, run: str, *errors: Error | None) -> None:
        """Bring a run to its end, in which the files end so."""
        ref = self.begin(run)
        self.infer(*errors)
        self.bench.collect(ref)
        self.end(run)

    def answers(self) -> dict[str, Any]:
        """Return the output or the error that each token of VAMS was answered with, each once."""
        ours = [one for one in self.cloud.stepfunctions.answers if not one["taskToken"].startswith("shard of")]
        by_token = {one["taskToken"]: json.loads(one.get("output") or one["cause"]) for one in ours}
        assert len(by_token) == len(ours)
        return by_token


@pytest.fixture
def workflow(bench: RunFixture, configure: Callable[..., None]) -> Workflow:
    configure(VamsEnvironment)
    return Workflow(bench)


def test_the_token_is_answered_once_when_every_file_has_its_result(workflow: Workflow) -> None:
    run = workflow.call("one")
    ref = workflow.begin(run)
    documents = {message["job"]["document"]["key"].rpartition("/")[0] for message in workflow.bench.sent()}
    root = FILES.removeprefix("s3://assets/").rstrip("/")
    assert documents == {root, f"{root}/cameras/front"}, "where VAMS collects them"
    workflow.infer(None, None)
    assert workflow.answers() == {}
    workflow.bench.collect(ref)
    workflow.end(run)
    workflow.end(run)
    assert workflow.answers() == {"one": {"files": 2}}


def test_files_without_a_result_are_named_in_a_document_beside_the_results(workflow: Workflow) -> None:
    run = workflow.call("one")
    workflow.done(run, PERMANENT, None)
    output = workflow.answers()["one"]
    assert (output["files"], output["failed"]) == (2, 1)
    assert output["errors"].startswith(f"{FILES}CosmosBatchErrors_")
    key = output["errors"].removeprefix("s3://assets/")
    document = json.loads(workflow.cloud.s3.get_object(Bucket="assets", Key=key)["Body"].read())
    [failed] = document["failed"]
    assert (document["runId"], document["files"]) == (run, 2)
    assert (failed["file"], failed["error"]) == ("cameras/front/robot demo.mp4", PERMANENT.model_dump())


def test_a_run_whose_errors_cannot_be_stored_fails_with_the_place_of_its_results(
    workflow: Workflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = workflow.cloud.s3.put_object

    def forbidden(**call: Any) -> Any:
        if "CosmosBatchErrors" in call["Key"]:
            raise PermissionError
        return put(**call)

    monkeypatch.setattr(workflow.cloud.s3, "put_object", forbidden)
    workflow.done(workflow.call("one"), PERMANENT, None)
    error = Error.model_validate(workflow.answers()["one"])
    assert error.message.startswith("1 of 2 files failed: cameras/front/robot demo.mp4 (InvalidInput).")
    assert FILES in error.remedy


def test_without_any_result_the_worst_error_is_the_answer_to_each_retry(workflow: Workflow) -> None:
    run = workflow.call("one")
    workflow.done(run, PERMANENT, failure("InvalidInput", "It is empty."))
    for token in ("two", "three"):
        workflow.call(token)
    assert workflow.runs() == [run], "nothing is started again"
    answers = workflow.answers()
    assert set(answers) == {"one", "two", "three"} and answers["one"] == answers["two"] == answers["three"]
    assert answers["one"]["code"] == "InvalidInput" and not answers["one"]["retryable"]
    files = "cameras/front/robot demo.mp4 (InvalidInput), still.png (InvalidInput)"
    assert answers["one"]["message"] == f"2 of 2 files failed: {files}. It is no video."


def test_a_retry_asks_again_only_the_files_whose_error_may_pass(workflow: Workflow) -> None:
    first = workflow.call("one")
    workflow.done(first, PERMANENT, PASSING)
    assert workflow.answers()["one"]["code"] == "InvalidInput", "the error that cannot pass is the worst"
    second = workflow.call("two")
    assert workflow.runs() == [first, second]
    workflow.done(second, None)
    assert (workflow.answers()["two"]["files"], workflow.answers()["two"]["failed"]) == (2, 1)


def test_a_retry_joins_a_run_under_way_and_nothing_is_sent_twice(workflow: Workflow) -> None:
    run = workflow.call("one")
    ref = workflow.begin(run)
    objects = workflow.cloud.s3.list_objects_v2(Bucket=STATE_BUCKET, Prefix=f"runs/{run}/")["Contents"]
    workflow.call("two")
    after = workflow.cloud.s3.list_objects_v2(Bucket=STATE_BUCKET, Prefix=f"runs/{run}/")["Contents"]
    assert workflow.runs() == [run] and objects == after
    workflow.infer(None, None)
    workflow.bench.collect(ref)
    workflow.end(run)
    workflow.call("three")
    assert workflow.answers() == {token: {"files": 2} for token in ("one", "two", "three")}


def test_a_held_run_answers_with_an_error_that_no_retry_repeats(workflow: Workflow) -> None:
    run = workflow.call("one")
    workflow.bench.prepare({"id": run}, execution=run)
    workflow.bench.runs.hold(run, "The budget of $5 would be exceeded.")
    workflow.end(run)
    workflow.call("two")
    assert workflow.runs() == [run]
    error = Error.model_validate(workflow.answers()["one"])
    assert workflow.answers()["two"] == workflow.answers()["one"]
    assert (error.code, error.retryable) == ("NoCapacity", False)
    assert error.message == f"The run {run} is HELD: The budget of $5 would be exceeded."


def test_a_held_run_that_a_person_resumes_is_not_answered_again(workflow: Workflow) -> None:
    run = workflow.call("one")
    workflow.bench.prepare({"id": run}, execution=run)
    workflow.bench.runs.hold(run, "The budget of $5 would be exceeded.")
    workflow.end(run)
    workflow.done(run, PERMANENT, None)
    assert workflow.answers()["one"]["code"] == "NoCapacity"
    assert "Contents" not in workflow.cloud.s3.list_objects_v2(
        Bucket="assets", Prefix=FILES.removeprefix("s3://assets/")
    )


def test_a_run_that_a_person_stops_answers_cancelled_and_says_where_results_are(workflow: Workflow) -> None:
    run = workflow.call("one")
    workflow.begin(run)
    [message, _] = workflow.bench.sent()
    workflow.bench.answer(message["job"]["jobId"])
    workflow.stop(run)
    workflow.call("two")
    assert workflow.runs() == [run], "the retry does not undo the stop"
    error = Error.model_validate(workflow.answers()["one"])
    assert workflow.answers()["two"] == workflow.answers()["one"]
    assert (error.code, error.retryable) == ("Cancelled", False)
    assert "by a person" in error.message and FILES in error.remedy


def test_a_stopped_run_is_answered_although_the_function_dies_between_its_end_and_the_answer(
    workflow: Workflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = workflow.call("one")
    workflow.begin(run)
    with monkeypatch.context() as dying:
        dying.setattr(finish, "end_run", Mock(side_effect=RuntimeError("the function died")))
        assert workflow.tell_of_stop(run)["batchItemFailures"], "the message is received again"
    assert workflow.answers() == {}
    workflow.stop(run)
    assert workflow.answers()["one"]["code"] == "Cancelled"


def test_a_run_is_answered_although_its_last_state_failed_for_good(
    workflow: Workflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last state fails for good where VAMS's account does not let `finish_run` answer yet."""
    run = workflow.call("one")
    workflow.begin(run)
    workflow.infer(None, None)
    with monkeypatch.context() as refused:
        refused.setattr(finish, "end_run", Mock(side_effect=PermissionError("no AssumeRole")))
        with pytest.raises(PermissionError):
            workflow.end(run)
    assert workflow.tell_of_stop(run, "FAILED") == {"batchItemFailures": []}
    assert workflow.answers()["one"]["retryable"], "its shard was not collected"
    assert workflow.tell_of_stop(run, "FAILED") == {"batchItemFailures": []}, "and only once"


def test_a_token_is_answered_although_the_answer_to_an_earlier_one_failed(
    workflow: Workflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as refused:
        refused.setattr(start_jobs, "start_run", Mock(side_effect=ConnectionError("throttled")))
        for module in (start_jobs, answers):
            refused.setattr(module, "vams_client", Mock(side_effect=PermissionError("no AssumeRole")))
        with pytest.raises(PermissionError):
            call_of_vams(workflow.cloud, manifest=workflow.manifest, TaskToken="one")
    call_of_vams(workflow.cloud, manifest=workflow.manifest, TaskToken="two")
    assert {token: error["retryable"] for token, error in workflow.answers().items()} == {"one": True, "two": True}


def test_a_run_that_is_stopped_before_it_was_prepared_is_answered(workflow: Workflow) -> None:
    workflow.stop(workflow.call("one"))
    assert workflow.answers()["one"]["code"] == "Cancelled"


def test_a_run_that_is_refused_before_it_was_prepared_is_answered(workflow: Workflow) -> None:
    refused = Failure("InvalidInput", "The pipeline is not enabled.", "Enable it.").error
    cause = json.dumps({"errorMessage": refused.model_dump_json()})
    workflow.end(workflow.call("one"), Error="Failure", Cause=cause)
    assert workflow.answers()["one"] == refused.model_dump()


def test_a_run_that_could_not_go_on_is_tried_again_without_repeating_an_inference(workflow: Workflow) -> None:
    first = workflow.call("one")
    workflow.begin(first)
    messages = workflow.bench.sent()
    workflow.bench.answer(messages[0]["job"]["jobId"])
    workflow.end(first, Error="States.Runtime", Cause="it broke")
    assert workflow.answers()["one"]["retryable"]
    second = workflow.call("two")
    workflow.cloud.sqs.purge_queue(QueueUrl=workflow.cloud.jobs_queue)
    ref = workflow.begin(second)
    assert workflow.infer(None) == [messages[1]["job"]["jobId"]]
    workflow.bench.collect(ref)
    workflow.end(second)
    assert workflow.answers()["two"] == {"files": 2}


def test_a_run_that_could_not_be_started_is_started_by_the_retry(
    workflow: Workflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(**_: str) -> None:
        raise ConnectionError

    with monkeypatch.context() as patched:
        patched.setattr(workflow.cloud.stepfunctions, "start_execution", unreachable, raising=False)
        call_of_vams(workflow.cloud, manifest=workflow.manifest, TaskToken="one")
    assert workflow.answers()["one"]["code"] == "Internal"
    workflow.done(workflow.call("two"), None, None)
    assert workflow.answers()["two"] == {"files": 2}


def test_a_crash_between_the_end_and_the_answer_is_made_up_for(workflow: Workflow) -> None:
    run = workflow.call("one")
    ref = workflow.begin(run)
    workflow.infer(None, None)
    workflow.bench.collect(ref)
    workflow.cloud.stepfunctions.refusal = "InternalError"
    with pytest.raises(Exception, match="InternalError"):
        workflow.end(run)
    workflow.cloud.stepfunctions.refusal = None
    workflow.end(run)
    assert workflow.answers() == {"one": {"files": 2}}


def test_a_retry_waits_for_the_jobs_that_an_earlier_release_started(workflow: Workflow) -> None:
    """The earlier release had a group of a job for each file; it is not started again as a run."""
    run = workflow.call("probe")
    workflow.cloud.dynamodb.delete_item(TableName="state", Key={"pk": {"S": f"group#{run}"}, "sk": {"S": "group"}})
    group = group_of_files(workflow.cloud, run, 2)
    groups = Groups(workflow.cloud.table)
    for number in range(2):
        groups.join(f"old-{number}", group, f"{number}.mp4")
    workflow.call("two")
    assert workflow.runs() == [run], "the probe's"
    groups.end("old-0", "{}")
    complete = groups.end("old-1", "{}")
    assert complete is not None and complete.complete and "two" in complete.waiting


# What a call of VAMS on up to ten files costs before its run, and the end of the run with the answer to VAMS.
BEFORE_A_RUN = {"HeadObject": 3, "GetObject": 3, "PutObject": 3, "GetItem": 1, "PutItem": 2, "StartExecution": 1}
AFTER_A_RUN = {"GetItem": 6, "Query": 2, "UpdateItem": 3, "PutObject": 1, "DeleteItem": 1}


@contextmanager
def counted_calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Count the calls to AWS, without the answers to tokens, which `Workflow.answers` counts, and without events."""
    calls: Counter[str] = Counter()
    make = BaseClient._make_api_call  # type: ignore[attr-defined]

    def counted(client: Any, operation: str, arguments: Any) -> Any:
        calls[operation] += 1
        return make(client, operation, arguments)

    with monkeypatch.context() as patch:
        patch.setattr(BaseClient, "_make_api_call", counted)
        yield calls


def name_files(workflow: Workflow, files: int) -> None:
    """Replace the files in the manifest of the workflow by this number of files."""
    [first, *_] = workflow.manifest["inputFiles"]
    workflow.manifest["inputFiles"] = []
    for number in range(files):
        key = f"{first['key'].rpartition('/')[0]}/{number}.mp4"
        workflow.cloud.put(key)
        workflow.manifest["inputFiles"].append({**deepcopy(first), "key": key, "relativePath": f"/{number}.mp4"})


@pytest.mark.parametrize(("files", "further_shards"), [(2, 0), (10, 0), (11, 1), (31, 2)])
def test_vams_adds_one_call_to_a_run_for_each_further_shard(
    workflow: Workflow, monkeypatch: pytest.MonkeyPatch, files: int, further_shards: int
) -> None:
    name_files(workflow, files)
    with counted_calls(monkeypatch) as before:
        workflow.call("one")
    # Three of the objects are VAMS's own, and the test itself looks for the execution.
    own = {"PutObject": 3, "ListExecutions": 1, "DescribeExecution": 1}
    assert before - Counter(own) == Counter(BEFORE_A_RUN) + Counter(PutObject=further_shards)


def test_after_a_run_vams_is_answered_with_few_calls(workflow: Workflow, monkeypatch: pytest.MonkeyPatch) -> None:
    name_files(workflow, 9)
    run = workflow.call("one")
    ref = workflow.begin(run)
    workflow.infer(*([None] * 9))
    workflow.bench.collect(ref)
    with counted_calls(monkeypatch) as after:
        workflow.end(run)
    assert workflow.answers() == {"one": {"files": 9}} and after == AFTER_A_RUN
