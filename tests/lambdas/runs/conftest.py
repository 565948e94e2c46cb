"""A run on moto: its objects, its rows, and calls of the functions as the state machine makes them."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from cosmos_batch.contract.environment import (
    CollectEnvironment,
    FeedEnvironment,
    FinishRunEnvironment,
    PrepareRunEnvironment,
)
from cosmos_batch.contract.error import Error
from cosmos_batch.contract.identity import Identity
from cosmos_batch.contract.result import Output, Result, Usage
from cosmos_batch.contract.runs import ResultLine, RunItem, RunRequest, ShardRef
from cosmos_batch.planning.runs.shards import item_line
from cosmos_batch.state import Attempt, ItemFacts, ItemJobs, JobRow, Runs, ShardRow, StagedDocuments, count_item
from lambdas.handlers import collect, feed, finish_run, prepare_run
from lambdas.runs import reconcile
from lambdas.runs.objects import RunObjects
from tests.lambdas.cloud import IDENTITY, SMALL, STATE_BUCKET, Cloud

RUN = "my-run"
ANOTHER = Identity(model=IDENTITY.model, engine="auto", configuration="another configuration")


class RunFixture:
    """Runs over files that lie in the bucket `assets`."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.runs, self.jobs = Runs(cloud.table), ItemJobs(cloud.table)
        self.staged = StagedDocuments(cloud.table, cloud.s3, STATE_BUCKET)

    def items(self, *names: str) -> list[RunItem]:
        """Upload files, and return an item for each."""
        for name in names:
            self.cloud.put(f"clips/{name}.mp4")
        return [RunItem(id=name, input=f"s3://assets/clips/{name}.mp4") for name in names]

    def write(self, items: list[RunItem], run: str = RUN, **request: Any) -> ShardRef:
        """Write the objects of a run with one shard."""
        objects = RunObjects(STATE_BUCKET, run)
        objects.write_request(RunRequest(id=run, pipelines=[SMALL], **{"prompt": "What?", **request}))
        ref = ShardRef(run=run, shard="00000", pipeline=SMALL, items=len(items))
        objects.write_shard(ref.shard, b"".join(map(item_line, items)))
        objects.write_shards([ref])
        return ref

    def execution(self, name: str) -> dict[str, str]:
        return {"id": f"arn:{name}", "name": name, "startTime": "2026-11-01T10:00:00Z"}

    def prepare(self, request: dict[str, Any] | None = None, execution: str = "e1") -> dict[str, Any]:
        event = {"request": {"run": request or {"id": RUN}}, "execution": self.execution(execution)}
        return prepare_run.handler(event, None)

    def feed(self, ref: ShardRef, token: str = "shard-token", execution: str = "e1") -> None:
        shard = ref.model_dump(by_alias=True)
        feed.handler({"shard": shard, "token": token, "execution": self.execution(execution)}, None)

    def collect(self, ref: ShardRef, **error: str) -> dict[str, Any]:
        return collect.handler({"shard": ref.model_dump(by_alias=True), **({"error": error} if error else {})}, None)

    def finish(self, execution: str = "e1", **error: str) -> dict[str, Any]:
        event: dict[str, Any] = {"execution": {**self.execution(execution), "input": {"run": {"id": RUN}}}}
        return finish_run.handler({**event, **({"error": error} if error else {})}, None)

    def started(self, items: list[RunItem], **request: Any) -> ShardRef:
        """Write, prepare and feed a run."""
        ref = self.write(items, **request)
        self.prepare({"id": ref.run})
        self.feed(ref)
        return ref

    def started_by_another(self, items: list[RunItem], run: str = "other", **request: Any) -> ShardRef:
        """Write, prepare and feed another run over the same items, with a token of its own name."""
        ref = self.write(items, run=run, **request)
        self.prepare({"id": run}, execution=run)
        self.feed(ref, token=f"token-of-{run}", execution=run)
        return ref

    def sent(self) -> list[dict[str, Any]]:
        """Return the messages in the pipeline's queue."""
        return self.cloud.messages(self.cloud.jobs_queue)

    def answer(self, job_id: str, error: Error | None = None, text: str = "An answer.") -> list[ShardRow]:
        """Do what a worker does: write the document, decide the job, and count it. Returns complete shards."""
        self.jobs.open_attempt(job_id, Attempt(id="a", worker="w", solo=False))
        body = f'{{"model": "m", "revision": "c1", "result": "{text}", "userPrompt": "What?"}}'
        self.staged.keep(job_id, "a", body.encode())
        output = Output(uri="s3://assets/clips/d.json", size=1, content_type="application/json")
        usage = Usage(prompt_tokens=7, completion_tokens=3)
        result = Result(job_id=job_id, error=error, outputs=[] if error else [output], usage=None if error else usage)
        self.jobs.commit(job_id, "a", result, facts=ItemFacts(2.0, 0.5, "c1"))
        row = self.jobs.finish(job_id, error)
        assert row is not None
        return count_item(row, self.runs)

    def shard(self, run: str = RUN) -> ShardRow:
        row = self.runs.shards.get(run, "00000")
        assert row is not None
        return row

    def tokens(self) -> set[str]:
        """Return the tokens of the states that wait for the run's shard."""
        return self.runs.shards.tokens(self.shard())

    def job_row(self, job_id: str) -> JobRow:
        row = self.jobs.get(job_id)
        assert row is not None
        return row

    def lines(self, folder: str, run: str = RUN) -> list[ResultLine]:
        s3 = self.cloud.s3
        listed = s3.list_objects_v2(Bucket=STATE_BUCKET, Prefix=f"runs/{run}/{folder}/").get("Contents", [])
        bodies = [s3.get_object(Bucket=STATE_BUCKET, Key=entry["Key"])["Body"].read().decode() for entry in listed]
        return [ResultLine.model_validate_json(line) for body in bodies for line in body.splitlines()]

    def answered(self) -> list[str]:
        return [answer["taskToken"] for answer in self.cloud.stepfunctions.answers]


@pytest.fixture
def bench(cloud: Cloud, configure: Callable[..., None]) -> RunFixture:
    for environment in (FeedEnvironment, PrepareRunEnvironment, CollectEnvironment, FinishRunEnvironment):
        configure(environment)
    return RunFixture(cloud)


@pytest.fixture
def stalled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a sweep look at every shard, however short it has not changed."""
    monkeypatch.setattr(reconcile, "STALLED", timedelta(0))


def run_sweep(bench: RunFixture) -> None:
    """Reconcile the runs, as `scale` does every minute."""
    reconcile.reconcile_runs(bench.cloud.table, STATE_BUCKET, {SMALL: bench.cloud.jobs_queue})


def sent_ids(bench: RunFixture) -> list[str]:
    """Return the ids of the jobs whose messages are in the pipeline's queue."""
    return [message["job"]["jobId"] for message in bench.sent()]


class Died(Exception):  # noqa: N818 - the end of a process, which is no error of its code
    """The process of a function has ended in the middle of its work."""


def dies_at(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, call: Callable[[], object]) -> None:
    """Call a function whose process dies at the moment in which it calls `name` of `owner`."""

    def die(*_: object, **__: object) -> None:
        raise Died

    with monkeypatch.context() as fault:
        fault.setattr(owner, name, die)
        with pytest.raises(Died):
            call()


def deploy(monkeypatch: pytest.MonkeyPatch, identity: Identity) -> None:
    """Deploy the pipeline for another model or configuration, as `feed` reads it."""
    pipelines = {
        name: pipeline.model_copy(update={"queue": pipeline.queue.model_copy(update={"identity": identity})})
        for name, pipeline in feed.pipelines().items()
    }
    monkeypatch.setattr(feed, "pipelines", lambda: pipelines)
