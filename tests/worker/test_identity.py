"""A job is served only by a worker with the configuration and the model for which it was planned (decision 064)."""

import asyncio
import json

import pytest

from cosmos_batch.contract.identity import Identity
from cosmos_batch.contract.job import PLAN_AGAIN
from cosmos_batch.contract.result import Output, Result
from cosmos_batch.store.checkpoint_folder import open_checkpoint_folder
from tests.worker.conftest import ASSETS, IDENTITY, STATE, WorkerFixture
from tests.worker.engines import PATIENCE

OTHER = Identity(model="another folder", engine="scripted", configuration="another configuration")


def test_a_job_for_another_configuration_is_planned_again_without_an_attempt(bench: WorkerFixture) -> None:
    bench.send(bench.job("other", planned_for=OTHER))
    bench.send(bench.job("own"))
    bench.worker().run()
    [call] = bench.stepfunctions.calls_of("failure")
    assert (call["taskToken"], call["error"]) == ("token-other", PLAN_AGAIN)
    assert "another folder" in call["cause"]
    row = bench.jobs.get("other")
    assert row is not None and (row.state, row.attempts, row.suspect) == ("PLANNED", 0, False)
    assert [one["taskToken"] for one in bench.stepfunctions.calls_of("success")] == ["token-own"]
    assert bench.waiting() == (0, 0)


def test_a_worker_that_must_drain_gives_the_job_back_and_leaves(bench: WorkerFixture) -> None:
    """`scale` has asked this worker to leave for a new deployment, for which the job was planned."""
    worker = bench.worker(idle_seconds=600, heartbeat_seconds=600)

    async def asked_then_met() -> None:
        serving = asyncio.create_task(worker.serve())
        while (row := bench.workers.get("worker-1")) is None or row.state != "READY":
            await asyncio.sleep(0.05)
        bench.workers.must_drain("worker-1")
        bench.send(bench.job(planned_for=OTHER))
        await serving

    asyncio.run(asyncio.wait_for(asked_then_met(), PATIENCE))
    assert bench.stepfunctions.calls_of("failure") == []
    assert bench.attempts("one") == 0
    assert sum(bench.waiting()) == 1, "hidden until the other workers have heard that they must leave, then visible"
    row = bench.workers.get("worker-1")
    assert row is not None and row.state == "DRAINING"


def test_a_job_given_back_is_hidden_until_all_old_workers_know_that_they_must_drain(bench: WorkerFixture) -> None:
    """After 20 receipts a message goes to the dead-letter queue. Old workers must not use them up within a second."""
    worker = bench.worker(heartbeat_seconds=600)
    bench.send(bench.job())
    [message] = worker.runner.queue.receive(at_most=1, wait_seconds=1)
    worker.runner.queue.give_back(message["ReceiptHandle"], worker.runner.environment.worker.seen_seconds)
    assert bench.waiting() == (0, 1)
    assert worker.runner.environment.worker.seen_seconds == 30


def test_a_worker_that_must_drain_before_it_is_ready_takes_no_job(bench: WorkerFixture) -> None:
    bench.send(bench.job())
    worker = bench.worker(idle_seconds=600)
    bench.workers.must_drain("worker-1")
    worker.run()
    assert bench.waiting() == (1, 0)


def test_a_job_of_schema_version_3_without_a_model_is_served(bench: WorkerFixture) -> None:
    """Commit 0f4e7e0 wrote jobs without `plannedFor`."""
    job = bench.job()
    body = {"schemaVersion": 3, "taskToken": "token", "job": job.model_dump(mode="json", exclude={"planned_for"})}
    bench.sqs.send_message(QueueUrl=bench.queue_url, MessageBody=json.dumps(body))
    bench.worker().run()
    assert json.loads(bench.document("one"))["jobId"] == "one"


@pytest.mark.parametrize("is_of_an_earlier_release", [False, True])
def test_any_worker_delivers_a_result_that_is_decided(bench: WorkerFixture, is_of_an_earlier_release: bool) -> None:
    """A worker ended after the decision. Nothing is left to infer, so the model of this worker does not matter."""
    job = bench.job(planned_for=OTHER)
    if is_of_an_earlier_release:
        bench.s3.put_object(Bucket=STATE, Key="jobs/one/won/document.json", Body=b"decided")
    else:
        bench.staged.keep("one", "won", b"decided")
    output = Output(uri=f"s3://{ASSETS}/out/one.json", size=7, content_type="application/json")
    bench.jobs.commit("one", "won", Result(job_id="one", outputs=[output]))
    bench.send(job)
    bench.worker().run()
    assert bench.document("one") == b"decided"
    assert len(bench.stepfunctions.calls_of("success")) == 1


def test_a_job_with_an_unknown_field_is_left_to_newer_workers(bench: WorkerFixture) -> None:
    """CloudFormation updates `plan` before the state machine, which writes the schema version of the message."""
    job = {**bench.job().model_dump(mode="json"), "fromTheFuture": 1}
    bench.sqs.send_message(
        QueueUrl=bench.queue_url, MessageBody=json.dumps({"schemaVersion": 4, "taskToken": "t", "job": job})
    )
    bench.worker(idle_seconds=600).run()
    assert bench.stepfunctions.calls_of("failure") == []
    assert sum(bench.waiting()) == 1


def of_commit(commit: str | None) -> Identity:
    return IDENTITY.model_copy(update={"revision": commit})


def test_a_job_planned_for_another_commit_is_planned_again(bench: WorkerFixture) -> None:
    """The recorded commit has changed since the worker started, or since the job was planned."""
    worker = bench.worker()
    own = open_checkpoint_folder(bench.folder).commit
    bench.send(bench.job("own", planned_for=of_commit(own)))
    bench.send(bench.job("before-any-was-recorded", planned_for=of_commit(None)))
    bench.send(bench.job("other", planned_for=of_commit("0" * 40)))
    worker.run()
    assert [call["taskToken"] for call in bench.stepfunctions.calls_of("failure")] == ["token-other"]
    assert len(bench.stepfunctions.calls_of("success")) == 2
    row = bench.workers.get("worker-1")
    assert row is not None and (row.model, row.revision, row.commit) == (bench.folder.name, "main", own)
