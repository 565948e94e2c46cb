"""Loading, renewing and backing up the model, and failures of each."""

import asyncio
import json
import socket
import time
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.contract.error import Failure
from cosmos_batch.store import StoredModel
from cosmos_batch.worker import serve
from cosmos_batch.worker.leases import LeaseHolder
from tests.support.scripted_engine import ScriptedEngine
from tests.worker.conftest import InProcessWorker, WorkerFixture
from tests.worker.engines import PATIENCE
from tests.worker.test_aws_outages import AWAY, refused


def test_a_renewed_model_is_backed_up_too(bench: WorkerFixture) -> None:
    bench.send(bench.job(invalidate_model=True))
    store = OldModel(yesterday())
    with_hub_model(bench, store).run()
    assert store.backed_up == ["commit-0", "commit-1"]


@dataclass
class OldModel:
    """A store whose copy has a given age until a newer one is requested. It fails to find or to fetch that one."""

    published_at: datetime
    not_found: Failure | None = None
    not_fetched: Exception | None = None

    def __post_init__(self) -> None:
        self.downloads = 0
        self.backed_up: list[str] = []

    def resolve(self, _model: str, _newer_than: datetime | None) -> str:
        if self.not_found is not None:
            raise self.not_found
        return f"commit-{self.downloads + 1}"

    def ensure(self, model: str, newer_than: datetime | None = None) -> StoredModel:
        if newer_than is not None and self.published_at <= newer_than:
            self.downloads += 1
            if self.not_fetched is not None:
                raise self.not_fetched
            self.published_at = datetime.now(UTC)
        return StoredModel(model, f"commit-{self.downloads}", Path("/nowhere"), self.published_at)

    def back_up(self, stored: StoredModel) -> bool:
        self.backed_up.append(stored.commit)
        return True


def unavailable(retryable: bool) -> Failure:
    return Failure("ModelUnavailable", "The Hub gives no copy.", "Ask it later.", retryable)


def yesterday() -> datetime:
    return datetime.now(UTC) - timedelta(days=1)


def with_hub_model(bench: WorkerFixture, store: OldModel) -> Any:
    worker = bench.worker(store=store)
    worker.model._model = "nvidia/Cosmos-Reason2-2B"
    return worker


def test_jobs_that_want_a_newer_copy_share_one_renewal(bench: WorkerFixture) -> None:
    for n in range(5):
        bench.send(bench.job(f"job-{n}", invalidate_model=True))
    bench.send(bench.job("plain"))
    store = OldModel(yesterday())
    with_hub_model(bench, store).run()
    assert store.downloads == 1
    for n in range(5):
        assert json.loads(bench.document(f"job-{n}"))["revision"] == "commit-1"


@pytest.mark.parametrize("retryable", [False, True])
def test_a_newer_copy_that_cannot_be_found_fails_only_the_job_that_wanted_it(
    bench: WorkerFixture, retryable: bool
) -> None:
    """The Hub is asked before the model leaves the memory. The worker goes on with the model that it has."""
    for n in range(4):
        bench.send(bench.job(f"plain-{n}", prompt=json.dumps({"seconds": 0.3})))
    bench.send(bench.job("asks", invalidate_model=True))
    for n in range(4, 8):
        bench.send(bench.job(f"plain-{n}"))
    store = OldModel(yesterday(), not_found=unavailable(retryable))
    with_hub_model(bench, store).run()
    [call] = bench.stepfunctions.calls_of("failure")
    assert (call["taskToken"], call["error"]) == ("token-asks", "ModelUnavailable")
    assert json.loads(call["cause"])["retryable"] is retryable
    assert (store.downloads, sum(bench.waiting())) == (0, 0)
    for n in range(8):
        assert json.loads(bench.document(f"plain-{n}"))["revision"] == "commit-0"


@pytest.mark.parametrize("retryable", [False, True])
def test_no_job_enters_an_engine_whose_renewal_failed(bench: WorkerFixture, retryable: bool) -> None:
    """A copy that was found cannot be fetched: the model is not in memory any more, so this worker ends."""
    for n in range(4):
        bench.send(bench.job(f"plain-{n}", prompt=json.dumps({"seconds": 0.3})))
    bench.send(bench.job("asks", invalidate_model=True))
    for n in range(4, 8):
        bench.send(bench.job(f"plain-{n}"))
    worker = with_hub_model(bench, OldModel(yesterday(), not_fetched=unavailable(retryable)))

    async def scene() -> None:
        with pytest.raises(Failure):
            await worker.serve()

    asyncio.run(asyncio.wait_for(scene(), PATIENCE))
    assert [call["taskToken"] for call in bench.stepfunctions.calls_of("failure")] == ["token-asks"]
    for n in range(8):
        row = bench.jobs.get(f"plain-{n}")
        assert row is not None
        assert row.open_attempt is None
        assert (row.state, row.attempts) in (("SUCCEEDED", 1), ("PLANNED", 0))


@pytest.mark.parametrize("fault", [AWAY, OSError(116, "ESTALE")])
def test_a_worker_whose_renewal_is_broken_off_by_a_fault_ends_and_fails_no_job(
    bench: WorkerFixture, fault: Exception
) -> None:
    """Without a model it would receive each job and give it back, again and again, until all receipts are used up."""
    bench.send(bench.job("asks", invalidate_model=True))
    for n in range(4):
        bench.send(bench.job(f"plain-{n}"))
    worker = with_hub_model(bench, OldModel(yesterday(), not_fetched=fault))

    async def scene() -> Failure:
        with pytest.raises(Failure) as raised:
            async with asyncio.timeout(20):
                await worker.serve()
        return raised.value

    error = asyncio.run(scene()).error
    assert (error.code, error.retryable) == ("ModelUnavailable", True)
    assert bench.stepfunctions.calls_of("failure") == []
    row = bench.jobs.get("asks")
    assert row is not None and (row.state, row.attempts) == ("PLANNED", 0)
    assert row.give_backs >= 1, "each receive that was under way may have brought it once more"
    answered = len(bench.stepfunctions.calls_of("success"))
    assert bench.waiting() == (5 - answered, 0)


class NotFetchedInAnOutage(OldModel):
    """A store that cannot fetch a newer copy. The next write to the job's row fails too, by `table_fault`."""

    def __init__(self, bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch, cause: Exception, fault: Exception):
        super().__init__(yesterday(), not_fetched=cause)
        self.table_fault = fault
        self._bench = bench
        self._monkeypatch = monkeypatch

    def ensure(self, model: str, newer_than: datetime | None = None) -> StoredModel:
        if newer_than is not None:
            client = self._bench.table._client
            self._monkeypatch.setattr(client, "update_item", partial(self._fail_once, client.update_item))
        return super().ensure(model, newer_than)

    def _fail_once(self, update_item: Any, **arguments: Any) -> Any:
        if arguments["Key"]["sk"]["S"] != "job":  # the worker reports meanwhile
            return update_item(**arguments)
        self._monkeypatch.undo()
        raise self.table_fault


@pytest.mark.parametrize(
    ("cause", "fault", "gone"),
    [
        pytest.param(AWAY, AWAY, False, id="the job cannot be given back"),
        pytest.param(unavailable(True), refused("AccessDeniedException", 400), False, id="its error is not committed"),
        pytest.param(unavailable(True), AWAY, True, id="nobody waits for its error any more"),
    ],
)
def test_a_worker_without_a_model_ends_even_if_nobody_can_be_told(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch, cause: Exception, fault: Exception, gone: bool
) -> None:
    """With more jobs in its queue it would receive each of them and give it back at once, for ever."""
    bench.send(bench.job("asks", invalidate_model=True))
    with monkeypatch.context() as outage:
        store = NotFetchedInAnOutage(bench, outage, cause, fault)
        worker = with_hub_model(bench, store)
        if gone:
            monkeypatch.setattr(worker.runner.callers, "state", lambda _: "gone" if store.downloads else "alive")
        with pytest.raises(Failure) as raised:
            worker.run()
    assert raised.value.error.code == "ModelUnavailable"


@pytest.mark.parametrize("not_fetched", [unavailable(False), None])
def test_a_worker_ends_for_its_own_reason_if_its_last_report_fails(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch, not_fetched: Failure | None
) -> None:
    """The breaker decides by the error in the worker's row; a report that is not written says nothing about it."""
    bench.send(bench.job("asks", invalidate_model=True))
    worker = with_hub_model(bench, OldModel(yesterday(), not_fetched=not_fetched))

    def unwritten(*_: Any) -> Any:
        raise AWAY

    monkeypatch.setattr(bench.workers, "seen", unwritten)
    with pytest.raises(Failure, match="gives no copy") if not_fetched else nullcontext():
        worker.run()


def test_a_worker_that_cannot_load_leaves_the_queue_to_scale(bench: WorkerFixture) -> None:
    """`scale` decides whether the jobs wait or fail, because it knows the other workers."""
    bench.send(bench.job())
    (bench.folder / "refuses").touch()
    environment = bench.environment("worker-1", engine="tests.support.scripted_engine:ScriptedEngine")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert asyncio.run(serve._serve(environment, LeaseHolder(theirs), time.time())) == serve.FAILED
    assert bench.stepfunctions.calls == []
    assert bench.waiting() == (1, 0)
    row = bench.workers.get("worker-1")
    assert row is not None and row.error is not None and not row.error.retryable


def test_a_model_newer_than_the_job_is_kept(bench: WorkerFixture) -> None:
    """VAMS keeps INVALIDATE_COSMOS_MODELS in its parameters. A job older than the last download renews nothing."""
    bench.send(bench.job(invalidate_model=True))
    store = OldModel(datetime.now(UTC) + timedelta(minutes=1))
    with_hub_model(bench, store).run()
    assert (store.downloads, store.backed_up) == (0, ["commit-0"])


def test_an_engine_loads_with_the_context_of_its_pipeline(bench: WorkerFixture) -> None:
    """`context` gets from the container's environment to the engine."""
    contexts: list[int | None] = []

    class Told(ScriptedEngine):
        def load(self, model_dir: Path, context: int | None = None) -> None:
            contexts.append(context)

    for context in (None, 32_768):
        environment = bench.environment(f"worker-{context}").model_copy(update={"context": context})
        variables = environment.variables()
        assert WorkerEnvironment.read(variables) == environment
        asyncio.run(InProcessWorker(bench, environment, Told(), None).serve())
    assert contexts == [None, 32_768]
