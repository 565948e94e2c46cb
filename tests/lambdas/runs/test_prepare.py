"""Preparing a run: its rows, a listed prefix, the caller's token, and what is refused."""

import json
from typing import Any

import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.runs import RunRequest, ShardRef
from cosmos_batch.planning.runs import shards
from cosmos_batch.state import Callbacks, RunRow, Runs
from lambdas.handlers import prepare_run
from lambdas.runs.objects import RunObjects
from lambdas.runs.run_input import run_id_of
from tests.lambdas.cloud import SMALL, STATE_BUCKET
from tests.lambdas.runs.conftest import RUN, RunFixture


def test_a_run_that_is_cancelled_before_its_first_execution_begins_stays_cancelled(
    bench: RunFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.write(bench.items("a"))
    create = Runs.create

    def cancel_then(self: Runs, row: RunRow) -> bool:
        created = create(self, row)
        if created:
            self.cancel(RUN, "by a person")
        return created

    monkeypatch.setattr(Runs, "create", cancel_then)
    assert bench.prepare()["pipelines"] == []
    run = bench.runs.get(RUN)
    assert run is not None and (run.state, run.execution_arn) == ("CANCELLED", "arn:e1")
    assert bench.finish()["summary"]["state"] == "CANCELLED"
    assert len(bench.prepare(execution="e2")["pipelines"]) == 1, "whoever starts another execution wants it to go on"


def test_a_run_gets_its_row_once_and_goes_on_with_a_later_execution(bench: RunFixture) -> None:
    bench.write(bench.items("a", "b"), max_dollars=5.0)
    assert bench.prepare() == {
        "run": RUN,
        "bucket": STATE_BUCKET,
        "key": f"runs/{RUN}/shards.json",
        "maxConcurrency": 10,
        "pipelines": [{"key": f"runs/{RUN}/shards.json", "maxConcurrency": 10}],
    }
    run = bench.runs.get(RUN)
    assert run is not None
    assert (run.state, run.items, run.shards, run.max_dollars, run.execution_arn) == ("RUNNING", 2, 1, 5.0, "arn:e1")
    bench.prepare({"id": RUN, "maxDollars": 9.0}, execution="e2")
    run = bench.runs.get(RUN)
    assert run is not None
    assert (run.max_dollars, run.execution_arn, run.started_at[:10]) == (9.0, "arn:e2", "2026-11-01")


def test_each_pipeline_has_its_own_shards_and_slots(bench: RunFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """The slots follow its own workers: neither pipeline takes the other's, however slow it is."""
    [deployed] = prepare_run.read_pipelines(prepare_run.environment().pipeline_parameters)
    large = deployed.model_copy(
        update={
            "queue": deployed.queue.model_copy(update={"id": "cosmos3-edge-reason"}),
            "compute": deployed.compute.model_copy(update={"max_workers": 500}),
        }
    )
    monkeypatch.setattr(prepare_run, "read_pipelines", lambda _: [deployed, large])
    names = [SMALL, "cosmos3-edge-reason"]
    objects = RunObjects(STATE_BUCKET, RUN)
    objects.write_request(RunRequest(id=RUN, pipelines=names, prompt="What?"))
    refs = [ShardRef(run=RUN, shard=f"{number:05}", pipeline=names[number % 2], items=9) for number in range(5)]
    objects.write_shards(refs)
    found = {each["key"]: each["maxConcurrency"] for each in bench.prepare()["pipelines"]}
    assert found == {objects.keys.shards_of(SMALL): 10, objects.keys.shards_of("cosmos3-edge-reason"): 200}
    listed = [
        [entry["shard"] for entry in json.loads(bench.cloud.s3.get_object(Bucket=STATE_BUCKET, Key=key)["Body"].read())]
        for key in found
    ]
    assert listed == [["00000", "00002", "00004"], ["00001", "00003"]]


def test_a_prefix_is_listed_without_folders_other_files_and_our_own_outputs(bench: RunFixture) -> None:
    for key in ("p/a.mp4", "p/deep/b ü+.png", "p/", "p/notes.txt", "p/a_CosmosReason_20260410-165029.json"):
        bench.cloud.put(key)
    bench.cloud.put("p/empty.mp4", b"")
    bench.prepare({"prefix": "s3://assets/p/", "prompt": "What?"}, execution="by-hand")
    run = bench.runs.get("by-hand")
    assert run is not None
    assert (run.items, run.pipelines, run.origin) == (2, [SMALL], "s3://assets/p/")
    body = bench.cloud.s3.get_object(Bucket=STATE_BUCKET, Key="runs/by-hand/shards/00000.jsonl")["Body"].read()
    items = [json.loads(line) for line in body.splitlines()]
    assert [item["input"] for item in items] == ["s3://assets/p/a.mp4", "s3://assets/p/deep/b ü+.png"]
    assert all(item["etag"] for item in items)


def test_files_in_long_folders_whose_paths_end_alike_have_ids_of_their_own(bench: RunFixture) -> None:
    keys = [f"p/{first}/{'long folder/' * 60}clip.mp4" for first in "ab"]
    for key in keys:
        bench.cloud.put(key)
    bench.prepare({"prefix": "s3://assets/p/", "prompt": "What?"}, execution="by-hand")
    body = bench.cloud.s3.get_object(Bucket=STATE_BUCKET, Key="runs/by-hand/shards/00000.jsonl")["Body"].read()
    assert [json.loads(line)["id"] for line in body.splitlines()] == keys


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"prefix": "s3://assets/nothing/"}, "there is no file"),
        ({"prefix": "s3://elsewhere/"}, "outside"),
        ({"prefix": "s3://assets/", "promt": "typo"}, "promt: unknown field"),
        ({"id": "../other"}, "id"),
        ({"id": "unknown"}, "There is no run 'unknown'"),
        ({"prefix": "s3://assets/clips/", "pipeline": "cosmos3-nano"}, "not enabled"),
    ],
)
def test_what_cannot_be_run_is_refused_with_what_to_do(
    bench: RunFixture, request_: dict[str, str], message: str
) -> None:
    bench.cloud.put("clips/a.mp4")
    with pytest.raises(Failure) as refused:
        bench.prepare(request_, execution="e1")
    assert message in refused.value.error.message
    assert refused.value.error.remedy


def test_the_token_of_the_caller_is_kept_before_anything_is_refused(bench: RunFixture) -> None:
    with pytest.raises(Failure):
        bench.prepare({"id": "unknown", "callback": "secret-token"})
    assert Callbacks(bench.cloud.table).waiting("unknown") == "secret-token"


def test_an_execution_whose_name_cannot_be_an_id_gets_a_run_named_by_its_digest() -> None:
    assert run_id_of({"run": {"prefix": "s3://b/"}}, "a-name") == "a-name"
    assert run_id_of({"run": {"prefix": "s3://b/"}}, "a" * 80).startswith("run-")


def test_a_prefix_is_refused_under_a_name_that_the_command_line_has_claimed(bench: RunFixture) -> None:
    bench.cloud.put("p/a.mp4")
    RunObjects(STATE_BUCKET, "monday").claim("what the command line asks")
    with pytest.raises(Failure, match="The name monday was taken"):
        bench.prepare({"prefix": "s3://assets/p/", "prompt": "What?"}, execution="monday")
    listed = bench.cloud.s3.list_objects_v2(Bucket=STATE_BUCKET, Prefix="runs/monday/")["Contents"]
    assert [entry["Key"] for entry in listed] == ["runs/monday/claim.json"]


def test_an_execution_that_asks_something_else_under_the_name_of_an_earlier_run_is_refused(bench: RunFixture) -> None:
    """Step Functions gives the name of an execution a second time after 90 days."""
    bench.cloud.put("p/a.mp4")
    bench.prepare({"prefix": "s3://assets/p/", "prompt": "What?"}, execution="monday")
    with pytest.raises(Failure, match="The name monday was taken"):
        bench.prepare({"prefix": "s3://assets/p/", "prompt": "Who?"}, execution="monday")


def test_a_run_without_a_list_of_shards_is_refused_and_does_not_end_well(bench: RunFixture) -> None:
    bench.write(bench.items("a"))
    bench.cloud.s3.delete_object(Bucket=STATE_BUCKET, Key=f"runs/{RUN}/shards.json")
    with pytest.raises(Failure, match="has no items") as refused:
        bench.prepare()
    assert "Start a new run" in refused.value.error.remedy
    assert bench.runs.get(RUN) is None


def test_a_written_prefix_run_goes_on_where_its_reasoner_is_not_the_only_one_any_more(
    bench: RunFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.cloud.put("p/a.mp4")
    event = {"prefix": "s3://assets/p/", "prompt": "What?"}
    prepared = bench.prepare(event, execution="by-hand")
    [deployed] = prepare_run.read_pipelines(prepare_run.environment().pipeline_parameters)
    another = deployed.model_copy(update={"queue": deployed.queue.model_copy(update={"id": "cosmos3-edge-reason"})})
    monkeypatch.setattr(prepare_run, "read_pipelines", lambda _: [deployed, another])
    assert bench.prepare(event, execution="by-hand") == prepared


def test_a_prefix_is_refused_under_the_name_of_an_earlier_releases_run_without_a_claim(bench: RunFixture) -> None:
    bench.cloud.put("p/a.mp4")
    same, other = ({"prefix": "s3://assets/p/", "prompt": prompt} for prompt in ("What?", "Who?"))
    bench.prepare(same, execution="monday")
    bench.cloud.s3.delete_object(Bucket=STATE_BUCKET, Key="runs/monday/claim.json")
    with pytest.raises(Failure, match="The name monday was taken"):
        bench.prepare(other, execution="monday")
    bench.cloud.s3.delete_object(Bucket=STATE_BUCKET, Key="runs/monday/claim.json")
    assert bench.prepare(same, execution="monday")["run"] == "monday"


def ids_by_shard(bench: RunFixture, run: str) -> list[list[str]]:
    """Return the ids of the items of each shard in the list of a run's shards."""
    objects = RunObjects(STATE_BUCKET, run)
    return [[item.id for item in objects.items(ref.shard)] for ref in objects.shards()]


def test_a_listing_that_died_goes_on_behind_what_it_wrote(bench: RunFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SHARD_ITEMS", 2)
    names = [f"p/{letter}.mp4" for letter in "bcdefgh"]
    for name in names:
        bench.cloud.put(name)
    write_shard = RunObjects.write_shard
    written: list[str] = []

    def dies_after_two(self: RunObjects, shard: str, lines: bytes) -> bool:
        if len(written) == 2:
            raise KeyboardInterrupt
        written.append(shard)
        return write_shard(self, shard, lines)

    with monkeypatch.context() as fault:
        fault.setattr(RunObjects, "write_shard", dies_after_two)
        with pytest.raises(KeyboardInterrupt):
            bench.prepare({"prefix": "s3://assets/p/", "prompt": "What?"}, execution="by-hand")
    bench.cloud.put("p/a.mp4")  # comes too late: the shards before are written
    bench.prepare({"prefix": "s3://assets/p/", "prompt": "What?"}, execution="by-hand")
    assert ids_by_shard(bench, "by-hand") == [names[0:2], names[2:4], names[4:6], names[6:7]]


@pytest.mark.parametrize("shard", ["00000", "00001"])
def test_a_prefix_that_is_listed_by_two_calls_at_once_mixes_no_shards(
    bench: RunFixture, monkeypatch: pytest.MonkeyPatch, shard: str
) -> None:
    """Files come while both list: no file is twice in the run or left out, and both calls return the same."""
    monkeypatch.setattr(shards, "SHARD_ITEMS", 2)
    names = [f"p/{letter}.mp4" for letter in "bdfhj"]
    for name in names:
        bench.cloud.put(name)
    event = {"prefix": "s3://assets/p/", "prompt": "What?"}
    write_shard = RunObjects.write_shard
    others: list[Any] = []

    def after_another_call(self: RunObjects, name: str, lines: bytes) -> bool:
        if name == shard and not others:
            for letter in "acegz":
                bench.cloud.put(f"p/{letter}.mp4")
            others.append(None)
            others.append(bench.prepare(event, execution="by-hand"))
        return write_shard(self, name, lines)

    monkeypatch.setattr(RunObjects, "write_shard", after_another_call)
    assert bench.prepare(event, execution="by-hand") == others[1]
    shards_of_run = ids_by_shard(bench, "by-hand")
    ids = [name for shard in shards_of_run for name in shard]
    assert ids == sorted(set(ids)) and {*names} <= {*ids}
    row = bench.runs.get("by-hand")
    assert row is not None and (row.items, row.shards) == (len(ids), len(shards_of_run))
