"""Two starts of one name: exactly one of two different ones writes the run, and an interrupted one goes on."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from moto.s3.responses import S3Response

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import WrongCall
from cosmos_batch.cli.runs.run_claim import StartDigest, claim_run
from cosmos_batch.cli.runs.run_plan import PlannedRun
from cosmos_batch.cli.runs.stored_run import StoredRun, stored_run
from cosmos_batch.contract.runs import RunItem, RunRequest
from cosmos_batch.local.moto_patches import s3 as patched_s3
from tests.support.runs import read_items

Plan = Callable[..., PlannedRun]


@pytest.fixture
def clips(put: Callable[..., None]) -> str:
    """Provide a prefix with 300 clips, which are two shards, of which 40 lie in its folder `late`."""
    put(*(f"clips/{'late/' * (number >= 260)}{number}.mp4" for number in range(300)))
    return "s3://assets/clips/"


@pytest.fixture
def atomic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let moto decide a condition and write in one step, as the local cloud does."""
    monkeypatch.setattr(S3Response, "put_object", patched_s3.conditional_writes_alone(S3Response.put_object))


def named(plan: Plan, source: str, prompt: str) -> PlannedRun:
    return plan(source, "--prompt", prompt, "--name", "monday")


@pytest.mark.usefixtures("atomic")
def test_of_two_different_starts_at_once_exactly_one_writes_the_run(
    clips: str, deployment: Deployment, plan: Plan
) -> None:
    starts = [named(plan, clips, "Cars?"), named(plan, f"{clips}late/", "People?")]
    together = Barrier(len(starts))

    def write(planned: PlannedRun) -> WrongCall | None:
        together.wait()
        try:
            planned.write()
        except WrongCall as refused:
            return refused
        return None

    with ThreadPoolExecutor(len(starts)) as pool:
        refusals = list(pool.map(write, starts))
    [(winner, _)] = [pair for pair in zip(starts, refusals, strict=True) if pair[1] is None]
    [refused] = [refusal for refusal in refusals if refusal is not None]
    assert "The name monday was taken" in refused.message and "another --name" in refused.remedy
    assert stored_run(deployment, "monday").request() == winner.request
    assert len(read_items(deployment.clients("s3"), "state", "monday")) == winner.estimate.items


def test_a_start_that_was_killed_goes_on_when_it_is_typed_again(
    clips: str, deployment: Deployment, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as killed:
        killed.setattr(StoredRun, "write_shard", _die)
        with pytest.raises(KeyboardInterrupt):
            named(plan, clips, "Cars?").write()
    with pytest.raises(WrongCall, match="asks something else"):
        named(plan, clips, "People?").write()
    named(plan, clips, "Cars?").write()
    assert len(read_items(deployment.clients("s3"), "state", "monday")) == 300


def test_files_that_an_interrupted_start_has_uploaded_do_not_make_it_another_start() -> None:
    item = RunItem(id="a.mp4", input="s3://assets/uploads/a.mp4", size=7)
    before, after, other = StartDigest(), StartDigest(), StartDigest()
    before.add(item)
    after.add(item.model_copy(update={"etag": '"e"', "size": 8}))
    other.add(item.model_copy(update={"prompt": "People?"}))
    request = RunRequest(id="monday", pipelines=["cosmos-reason2-2b"])
    assert before.with_request(request) == after.with_request(request) != other.with_request(request)


def test_nothing_is_uploaded_for_a_name_that_another_start_has(
    deployment: Deployment, plan: Plan, tmp_path: Path
) -> None:
    claim_run(stored_run(deployment, "monday"), "another")
    (tmp_path / "a.mp4").write_bytes(b"clip")
    with pytest.raises(WrongCall, match="was taken"):
        named(plan, f"{tmp_path}/", "Cars?").write()
    assert "Contents" not in deployment.clients("s3").list_objects_v2(Bucket="assets")


def test_a_claim_that_was_written_although_its_answer_was_lost_is_the_same_claim(deployment: Deployment) -> None:
    objects = stored_run(deployment, "monday")
    claim_run(objects, "mine")
    claim_run(objects, "mine")


def _die(*_: Any) -> Iterator[None]:
    raise KeyboardInterrupt
