"""Runs through the deployed template: exact counts, one document for each item, tables, faults, cancel and budget."""

import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.contract.run_keys import RunKeys
from cosmos_batch.contract.runs import ResultLine, RunItem, RunRequest, RunSummary, ShardRef
from cosmos_batch.planning.runs.shards import item_line
from cosmos_batch.state import Callbacks, RunRow, Runs
from tests.e2e.grants import covers, grants, uses
from tests.e2e.unused_grants import RUNS, UNUSED, UNUSED_BY_RUNS
from tests.support.deployed_app import TWO_B, App, wait_for

BAD = ("bad-0", "bad-1", "bad-2")


@pytest.fixture(scope="module")
def files(app: App, picture: Path) -> list[RunItem]:
    """Upload 24 good pictures and three that are none; return an item for each."""
    names = [f"good-{number}" for number in range(24)] + list(BAD)
    for name in names:
        app.upload(f"clips/{name}.png", b"no picture" if name in BAD else picture)
    return [RunItem(id=name, input=f"s3://{app.assets}/clips/{name}.png") for name in names]


@pytest.fixture
def run_id() -> str:
    return f"run-{uuid.uuid4().hex[:8]}"


def write_run(app: App, run: str, items: list[RunItem], per_shard: int = 9, **request: Any) -> None:
    """Write the objects of a run, as the command line does."""
    asked = RunRequest(id=run, pipelines=[TWO_B], **{"prompt": "What is it?", **request})
    shards: list[ShardRef] = []
    for start in range(0, len(items), per_shard):
        part = items[start : start + per_shard]
        shards.append(ShardRef(run=run, shard=f"{len(shards):05}", pipeline=TWO_B, items=len(part)))
        put(app, run, f"shards/{shards[-1].shard}.jsonl", b"".join(map(item_line, part)))
    put(app, run, "run.json", asked.model_dump_json().encode())
    put(app, run, "shards.json", f"[{','.join(shard.model_dump_json() for shard in shards)}]".encode())


def put(app: App, run: str, name: str, body: bytes) -> None:
    app.client("s3").put_object(Bucket=app.outputs["StateBucketName"], Key=f"{RunKeys(run).prefix}{name}", Body=body)


def start(app: App, run: str, **more: Any) -> str:
    return app.start({"run": {"id": run, **more}})


def end_of(app: App, arn: str) -> RunSummary:
    """Wait for a run's execution under sweeps, and return its summary."""
    ended = app.ended_under_sweeps(arn)
    assert ended["status"] == "SUCCEEDED", ended
    return RunSummary.model_validate_json(ended["output"])


def lines(app: App, run: str, folder: str) -> Iterator[ResultLine]:
    s3, bucket = app.client("s3"), app.outputs["StateBucketName"]
    for entry in s3.list_objects_v2(Bucket=bucket, Prefix=RunKeys(run).folder(folder)).get("Contents", []):
        body = s3.get_object(Bucket=bucket, Key=entry["Key"])["Body"].read().decode()
        yield from map(ResultLine.model_validate_json, body.splitlines())


def inferred(app: App, run: str) -> dict[str, str]:
    """Return when each item of a run was inferred, by the item's id."""
    rows = {line.id: app.jobs.get(line.job_id) for line in lines(app, run, "results")}
    return {name: row.stages["inferred"] for name, row in rows.items() if row is not None}


def row_of(app: App, run: str) -> RunRow:
    row = Runs(app.table).get(run)
    assert row is not None
    return row


def test_a_run_with_bad_files_ends_with_exact_counts_and_one_document_for_each_item(
    app: App, files: list[RunItem], run_id: str
) -> None:
    write_run(app, run_id, files)
    Callbacks(app.table).keep(run_id, "not a token of anybody")
    summary = end_of(app, start(app, run_id))
    assert (summary.state, summary.items, summary.succeeded, summary.failed) == ("SUCCEEDED", 27, 24, 3)
    assert (app.queue_is_empty(), summary.cancelled, summary.reused) == (True, 0, 0)
    assert summary.errors_by_code == {"InvalidInput": 3}
    assert (summary.prompt_tokens, summary.completion_tokens) == (24, 24)
    assert set(summary.seconds_quantiles) == {"p50", "p90", "p99", "max"}
    results, errors = list(lines(app, run_id, "results")), list(lines(app, run_id, "errors"))
    assert sorted(line.id for line in errors) == sorted(BAD)
    assert len({line.id for line in results}) == 24
    assert {line.answer for line in results} == {"What is it?"}
    documents = [key for key in app.keys("clips/") if key.endswith(".json")]
    assert len(documents) == 24
    assert {line.document for line in results} == {f"s3://{app.assets}/{key}" for key in documents}
    assert Callbacks(app.table).waiting(run_id) is None, "the callback was answered, and is not answered again"
    assert app.queue_is_empty()
    assert list(Runs(app.table).active()) == []

    before = inferred(app, run_id)
    again = f"{run_id}-again"
    write_run(app, again, files, per_shard=5)
    repeated = end_of(app, start(app, again))
    assert (repeated.succeeded, repeated.failed, repeated.reused) == (24, 3, 24 + 3)
    assert repeated.gpu_seconds == repeated.dollars == 0
    assert inferred(app, again) == before, "nothing was inferred again"
    assert all(line.reused for line in lines(app, again, "results"))
    assert len([key for key in app.keys("clips/") if key.endswith(".json")]) == 24


def test_a_run_that_is_started_twice_at_once_answers_each_item_once(
    app: App, files: list[RunItem], run_id: str
) -> None:
    write_run(app, run_id, files[:8], per_shard=4, prompt="Twice?")
    first, second = start(app, run_id), start(app, run_id)
    app.ended_under_sweeps(first)
    app.ended_under_sweeps(second)
    row = row_of(app, run_id)
    assert (row.state, row.reason) == ("SUCCEEDED", None)
    assert sum(shard.succeeded for shard in Runs(app.table).shards.of_run(run_id)) == 8
    assert len({line.id for line in lines(app, run_id, "results")}) == 8
    documents = [line.document for line in lines(app, run_id, "results")]
    assert len(set(documents)) == 8


def test_a_worker_that_is_killed_in_the_middle_loses_and_doubles_nothing(
    app: App, files: list[RunItem], run_id: str, tmp_path: Path
) -> None:
    script = json.dumps({"killAt": "committed", "once": str(tmp_path / "killed"), "group": True})
    write_run(app, run_id, files[:6], prompt=script)
    summary = end_of(app, start(app, run_id))
    assert (tmp_path / "killed").exists(), "the fault was injected"
    assert (summary.succeeded, summary.failed) == (6, 0)
    assert len({line.id for line in lines(app, run_id, "results")}) == 6


def test_a_run_that_is_cancelled_ends_and_goes_on_where_it_was(
    app: App, files: list[RunItem], run_id: str, tmp_path: Path
) -> None:
    script = json.dumps({"until": str(tmp_path / "go"), "text": "At last."})
    slow = [item.model_copy(update={"prompt": script}) for item in files[:3]]
    write_run(app, run_id, [*files[3:6], *slow], prompt="Soon?")
    arn = start(app, run_id)
    runs = Runs(app.table)
    wait_for(
        lambda: (shard := runs.shards.get(run_id, "00000")) is not None and shard.succeeded == 3,
        120,
        "three are not done",
    )
    runs.cancel(run_id, "A person stopped it.")
    summary = end_of(app, arn)
    assert (summary.state, summary.succeeded, summary.cancelled) == ("CANCELLED", 3, 3)
    assert summary.reason == "A person stopped it."
    assert {line.error.code for line in lines(app, run_id, "errors") if line.error is not None} == {"Cancelled"}
    wait_for(app.queue_is_empty, 120, "messages of a cancelled run are left")
    (tmp_path / "go").touch()
    before = inferred(app, run_id)
    resumed = end_of(app, start(app, run_id))
    assert (resumed.state, resumed.succeeded, resumed.cancelled, len(before)) == ("SUCCEEDED", 6, 0, 3)
    assert before.items() <= inferred(app, run_id).items(), "what was answered is not asked again"
    assert not list(lines(app, run_id, "errors"))


def test_a_budget_holds_a_run_until_it_is_raised(app: App, files: list[RunItem], run_id: str) -> None:
    write_run(app, run_id, files[:4], per_shard=2, prompt="Dear?", max_dollars=1e-9)
    held = end_of(app, start(app, run_id))
    assert (held.state, held.succeeded) == ("HELD", 0)
    assert "budget" in (held.reason or "")
    summary = end_of(app, start(app, run_id, maxDollars=100.0))
    assert (summary.state, summary.succeeded) == ("SUCCEEDED", 4)
    assert row_of(app, run_id).max_dollars == 100


def test_a_person_starts_a_run_over_a_prefix_in_the_console(app: App, picture: Path) -> None:
    for name in ("a.png", "deep/b.png", "ünï cödé+.png"):
        app.upload(f"console/{name}", picture)
    app.upload("console/notes.txt", b"no medium")
    app.upload("console/a_CosmosReason_20260410-165029.json", b"{}")
    prefix = f"s3://{app.assets}/console/"
    output = f"s3://{app.assets}/tables/"
    asked = {"prefix": prefix, "pipeline": TWO_B, "prompt": "From the console?", "output": output}
    summary = end_of(app, app.start({"run": asked}))
    assert (summary.items, summary.succeeded) == (3, 3)
    documents = app.keys("tables/")
    assert len(documents) == 3
    assert [key for key in documents if key.startswith("tables/deep/b_CosmosReason_")]


def test_a_run_that_does_not_exist_fails_with_what_to_do(app: App) -> None:
    ended = app.ended(start(app, "no-such-run"))
    assert (ended["status"], ended["error"]) == ("FAILED", "InvalidInput")
    assert "runs start" in ended["cause"]


def test_a_run_whose_execution_is_stopped_is_cancelled(
    app: App, files: list[RunItem], run_id: str, tmp_path: Path
) -> None:
    script = json.dumps({"until": str(tmp_path / "never")})
    write_run(app, run_id, files[:2], prompt=script)
    arn = start(app, run_id)
    runs = Runs(app.table)
    wait_for(
        lambda: (s := runs.shards.get(run_id, "00000")) is not None and s.state == "RUNNING", 120, "it was not fed"
    )
    app.client("stepfunctions").stop_execution(executionArn=arn, cause="enough")
    wait_for(lambda: row_of(app, run_id).ended_at is not None, 120, "the run did not end")
    row = row_of(app, run_id)
    assert row.state == "CANCELLED"
    assert "enough" in (row.reason or "")
    wait_for(app.queue_is_empty, 120, "messages of a stopped run are left")


def test_a_shard_whose_turn_is_far_is_fed_when_its_state_calls_again(
    app: App, files: list[RunItem], run_id: str
) -> None:
    def let_turns_begin_in(seconds: float) -> None:
        app.table.update("feeding", "turns", "SET #takenUntil = :then", {"then": round(time.time() + seconds, 3)})

    def is_put_off() -> bool:
        feeds = [call for call in app.cloud.calls() if "FunctionsFeed" in call["role"]]
        return any(call["operation"] == "SendTaskFailure" for call in feeds)

    let_turns_begin_in(3600)
    write_run(app, run_id, files[:2], prompt="In turn?")
    execution = start(app, run_id)
    wait_for(is_put_off, 120, "the shard was not put off")
    let_turns_begin_in(0)
    summary = end_of(app, execution)
    assert (summary.state, summary.succeeded) == ("SUCCEEDED", 2)


def test_every_call_of_a_run_is_granted_and_every_grant_has_a_use(app: App) -> None:
    used, granted = {*uses(app)}, {grant for grant in grants(app) if grant.role in RUNS}
    refused = [use for use in used if use.role in RUNS and not any(covers(grant, use) for grant in granted)]
    assert not refused, f"calls that AWS would refuse: {sorted(map(str, refused))}"
    idle = {grant for grant in granted if not any(covers(grant, use) for use in used)}
    excuses = [*UNUSED_BY_RUNS, *(entry for entry in UNUSED if "runs: test_runs.py" not in entry.reason)]
    needless = {grant for grant in idle if not any(entry.excuses(grant) for entry in excuses)}
    assert not needless, f"grants that nothing uses: {sorted(needless)}"
