"""Preparing a run: its rows, a listed prefix, the caller's token, and what is refused."""

import json

import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.state import Callbacks
from lambdas.runs.run_input import run_id_of
from tests.lambdas.cloud import SMALL, STATE_BUCKET
from tests.lambdas.runs.conftest import RUN, Bench


def test_a_run_gets_its_row_once_and_goes_on_with_a_later_execution(bench: Bench) -> None:
    bench.write(bench.items("a", "b"), max_dollars=5.0)
    assert bench.prepare() == {
        "run": RUN,
        "bucket": STATE_BUCKET,
        "key": f"runs/{RUN}/shards.json",
        "maxConcurrency": 10,
    }
    run = bench.runs.get(RUN)
    assert run is not None
    assert (run.state, run.items, run.shards, run.max_dollars, run.execution_arn) == ("RUNNING", 2, 1, 5.0, "arn:e1")
    bench.prepare({"id": RUN, "maxDollars": 9.0}, execution="e2")
    run = bench.runs.get(RUN)
    assert run is not None
    assert (run.max_dollars, run.execution_arn, run.started_at[:10]) == (9.0, "arn:e2", "2026-11-01")


def test_a_prefix_is_listed_without_folders_other_files_and_our_own_outputs(bench: Bench) -> None:
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


def test_files_in_long_folders_whose_paths_end_alike_have_ids_of_their_own(bench: Bench) -> None:
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
def test_what_cannot_be_run_is_refused_with_what_to_do(bench: Bench, request_: dict[str, str], message: str) -> None:
    bench.cloud.put("clips/a.mp4")
    with pytest.raises(Failure) as refused:
        bench.prepare(request_, execution="e1")
    assert message in refused.value.error.message
    assert refused.value.error.remedy


def test_the_token_of_the_caller_is_kept_before_anything_is_refused(bench: Bench) -> None:
    with pytest.raises(Failure):
        bench.prepare({"id": "unknown", "callback": "secret-token"})
    assert Callbacks(bench.cloud.table).waiting("unknown") == "secret-token"


def test_an_execution_whose_name_cannot_be_an_id_gets_a_run_named_by_its_digest() -> None:
    assert run_id_of({"run": {"prefix": "s3://b/"}}, "a-name") == "a-name"
    assert run_id_of({"run": {"prefix": "s3://b/"}}, "a" * 80).startswith("run-")
