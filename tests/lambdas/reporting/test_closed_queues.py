"""`close_queue` ends the jobs of a pipeline that is removed, before CloudFormation deletes their queue."""

from collections.abc import Callable, Iterable
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError

from cosmos_batch.contract.environment import CloseQueueEnvironment
from cosmos_batch.contract.error import Error
from cosmos_batch.contract.job import JobMessage
from cosmos_batch.contract.runs import ShardRef
from cosmos_batch.state import ItemJobs, Jobs, RunRow, Runs, Watcher, Workers
from lambdas.handlers.close_queue import handler
from lambdas.job_queues import count_jobs
from lambdas.reporting import closed_queues
from tests.lambdas.cloud import LARGE, SMALL, Cloud, ResponseUrl, event
from tests.support.jobs import make_job


class Context:
    """What Lambda tells a function of the time that it has left: each of `seconds` in turn, the last one for ever."""

    def __init__(self, seconds: Iterable[float] = (900,)) -> None:
        self._seconds = list(seconds)

    def get_remaining_time_in_millis(self) -> float:
        return 1000 * (self._seconds.pop(0) if len(self._seconds) > 1 else self._seconds[0])


@pytest.fixture(autouse=True)
def _environment(configure: Callable[..., None]) -> None:
    configure(CloseQueueEnvironment)


def request(cloud: Cloud, cloudformation: ResponseUrl, request_type: str, context: Context | None = None) -> None:
    body: dict[str, Any] = event("cloudformation_queue")
    properties = {**body["ResourceProperties"], "QueueUrl": cloud.jobs_queue}
    body |= {"RequestType": request_type, "ResponseURL": cloudformation.url, "ResourceProperties": properties}
    if request_type != "Create":
        body["PhysicalResourceId"] = cloud.jobs_queue
    handler(body, context or Context())
    [answer] = cloudformation.answers
    assert (answer["Status"], answer["PhysicalResourceId"]) == ("SUCCESS", cloud.jobs_queue)


def send(cloud: Cloud, *numbers: int) -> None:
    for number in numbers:
        job = make_job(f"job-{number}")
        Jobs(cloud.table).create(job)
        body = JobMessage(schema_version=4, task_token=f"token-{number}", job=job).model_dump_json()
        cloud.sqs.send_message(QueueUrl=cloud.jobs_queue, MessageBody=body)


def test_the_jobs_that_wait_fail_with_what_to_do(cloud: Cloud, cloudformation: ResponseUrl) -> None:
    send(cloud, *range(12))
    request(cloud, cloudformation, "Delete")
    answers = {
        answer["taskToken"]: Error.model_validate_json(answer["cause"]) for answer in cloud.stepfunctions.answers
    }
    assert answers.keys() == {f"token-{number}" for number in range(12)}
    error = answers["token-0"]
    assert error.code == "InvalidInput" and not error.retryable, "no worker will ever do it"
    assert SMALL in error.message and "config.json" in error.remedy
    row = Jobs(cloud.table).get("job-0")
    assert row is not None and row.state == "FAILED"
    assert count_jobs(cloud.jobs_queue) == 0


def test_a_run_that_waits_for_the_pipeline_is_held_until_a_person_resumes_it(
    cloud: Cloud, cloudformation: ResponseUrl
) -> None:
    runs, jobs, job = Runs(cloud.table), ItemJobs(cloud.table), make_job("item-1")
    runs.create(RunRow(id="r", state="RUNNING", items=1, started_at="2026-11-01T00:00:00Z"))
    runs.shards.feed(ShardRef(run="r", shard="00000", pipeline=SMALL, items=1), "shard-token", 0.0)
    jobs.sent(jobs.watch(job, Watcher("r", "00000", 0), retry=False)[1])
    body = JobMessage(schema_version=5, run="r", job=job).model_dump_json()
    cloud.sqs.send_message(QueueUrl=cloud.jobs_queue, MessageBody=body)
    request(cloud, cloudformation, "Delete")
    run, row = runs.get("r"), jobs.get("item-1")
    assert run is not None and run.state == "HELD" and run.reason is not None and SMALL in run.reason
    assert row is not None and (row.state, row.is_sent) == ("PLANNED", False)


def test_a_job_that_a_worker_gives_back_meanwhile_is_refused_too(cloud: Cloud, cloudformation: ResponseUrl) -> None:
    send(cloud, 1, 2)
    [taken] = cloud.sqs.receive_message(QueueUrl=cloud.jobs_queue, VisibilityTimeout=3600)["Messages"]

    class WorkerLeaves(Context):
        looks = 0

        def get_remaining_time_in_millis(self) -> float:
            self.looks += 1
            if self.looks == 3:  # it has looked at the queue twice
                handle = taken["ReceiptHandle"]
                cloud.sqs.change_message_visibility(
                    QueueUrl=cloud.jobs_queue, ReceiptHandle=handle, VisibilityTimeout=0
                )
            return super().get_remaining_time_in_millis()

    request(cloud, cloudformation, "Delete", WorkerLeaves())
    assert len(cloud.stepfunctions.answers) == 2


def test_the_workers_of_the_pipeline_are_ended(cloud: Cloud, cloudformation: ResponseUrl) -> None:
    names = [cloud.batch.submit_job(jobDefinition="d")["jobId"] for _ in range(3)]
    workers, others = Workers(cloud.table, SMALL), Workers(cloud.table, LARGE)
    for name, pipeline in zip(names, (workers, workers, others), strict=True):
        pipeline.submitted(name, "d")
    workers.ended(names[1])
    request(cloud, cloudformation, "Delete")
    assert [cloud.batch.jobs[name]["status"] for name in names] == ["FAILED", "RUNNABLE", "RUNNABLE"]


def test_a_worker_that_cannot_be_ended_does_not_keep_jobs_from_being_answered(
    cloud: Cloud, cloudformation: ResponseUrl, lines: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    send(cloud, 1)
    Workers(cloud.table, SMALL).submitted("gone", "d")
    refused = ClientError({"Error": {"Code": "ClientException", "Message": "no such job"}}, "TerminateJob")
    monkeypatch.setattr(cloud.batch, "terminate_job", Mock(side_effect=refused))
    request(cloud, cloudformation, "Delete")
    assert [answer["taskToken"] for answer in cloud.stepfunctions.answers] == ["token-1"]
    assert "could not be ended" in lines()


def test_a_job_that_no_worker_gives_back_in_time_does_not_stop_the_deployment(
    cloud: Cloud, cloudformation: ResponseUrl, lines: Callable[[], str]
) -> None:
    send(cloud, 1)
    cloud.sqs.receive_message(QueueUrl=cloud.jobs_queue, VisibilityTimeout=3600)
    request(cloud, cloudformation, "Delete", Context([900, 60]))
    assert cloud.stepfunctions.answers == []
    assert '"jobs": 1' in lines()


def test_a_throttled_answer_is_given_at_the_next_look(
    cloud: Cloud, cloudformation: ResponseUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(cloud, 1)
    refuse, calls = closed_queues.refuse_queue, []

    def throttled_once(*arguments: Any) -> bool:
        calls.append(arguments)
        if len(calls) == 1:
            raise ClientError({"Error": {"Code": "ThrottlingException", "Message": ""}}, "SendTaskFailure")
        return refuse(*arguments)

    monkeypatch.setattr(closed_queues, "refuse_queue", throttled_once)
    request(cloud, cloudformation, "Delete")
    assert [answer["taskToken"] for answer in cloud.stepfunctions.answers] == ["token-1"]


def test_a_fault_does_not_stop_the_deployment(
    cloud: Cloud, cloudformation: ResponseUrl, lines: Callable[[], str]
) -> None:
    cloud.sqs.delete_queue(QueueUrl=cloud.jobs_queue)
    request(cloud, cloudformation, "Delete")
    assert "could not be closed" in lines()


@pytest.mark.parametrize("request_type", ["Create", "Update"])
def test_a_deployment_that_keeps_the_pipeline_leaves_its_jobs_alone(
    cloud: Cloud, cloudformation: ResponseUrl, request_type: str
) -> None:
    send(cloud, 1)
    request(cloud, cloudformation, request_type)
    assert cloud.stepfunctions.answers == []
    assert count_jobs(cloud.jobs_queue) == 1
