"""A person retries, selects and compares in the browser, and nothing starts without being confirmed."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Page, expect

from cosmos_batch.cli.console.run_console import console_of_runs
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.runs.run_watcher import ItemRate
from cosmos_batch.cli.runs.stored_run import stored_run
from cosmos_batch.cli.stopped_clouds.lookup import RunDeployments
from cosmos_batch.contract.runs import RunItem, ShardRef
from cosmos_batch.state import ItemEnd
from tests.cli.commands.runs.conftest import put_row
from tests.cli.conftest import FakeStepFunctions
from tests.support.browser import chromium, needs_chromium, serving, watched
from tests.support.run_objects import PIPELINE, answered, failed, put_run

SELECTED = "Retry those that failed"


def put_ended_run(deployment: Deployment, run: str) -> None:
    """Write a run that has ended: an answer that cost $1.50, and two items that failed."""
    s3, lines = deployment.clients("s3"), [answered("first"), failed("second"), failed("third")]
    put_run(s3, run, [lines])
    items = "".join(f"{RunItem(id=line.id, input=line.input).model_dump_json()}\n" for line in lines)
    s3.put_object(Bucket="state", Key=f"runs/{run}/shards/00000.jsonl", Body=items)
    put_row(deployment, run, items=3)
    deployment.runs.shards.feed(ShardRef(run=run, shard="00000", pipeline=PIPELINE, items=3), "a task token", 0.1)
    ends = [ItemEnd("succeeded", gpu_seconds=1800.0, dollars=1.5), ItemEnd("failed"), ItemEnd("failed")]
    deployment.runs.shards.count(run, "00000", dict(enumerate(ends)))
    deployment.runs.end(run, deployment.execution_arn(run), "SUCCEEDED", None)


@contextmanager
def page_of(deployment: Deployment, run: str, complaints: list[str]) -> Iterator[Page]:
    """Open the console's page of a run in the browser, or that of all runs. It adds what Chromium complains of."""
    console = console_of_runs(RunDeployments(deployment), run)
    with console, serving(console) as url, chromium() as browser, watched(browser, url, complaints) as page:
        yield page


@needs_chromium
def test_nothing_is_retried_before_a_person_has_seen_how_much_it_is(
    deployment: Deployment, stepfunctions: FakeStepFunctions
) -> None:
    put_ended_run(deployment, "monday")
    complaints: list[str] = []
    with page_of(deployment, "monday", complaints) as page:
        expect(page.locator("a.row")).to_have_count(3)
        dialog = page.get_by_role("dialog")
        page.get_by_role("button", name="Retry what failed").click()
        expect(dialog).to_contain_text("asks again about 2 items, for about $3.00")
        dialog.get_by_role("button", name="Back").click()
        page.get_by_label("Select first").check()
        page.get_by_role("button", name=SELECTED).click()
        expect(page.get_by_text("None of the selected items has failed.")).to_be_visible()
        page.get_by_label("Select second").check()
        page.get_by_role("button", name=SELECTED).click()
        expect(dialog).to_contain_text("asks again about 1 item, for about $1.50")
        dialog.get_by_role("button", name="Back").click()
        expect(dialog).to_have_count(0)
        assert not stepfunctions.started
        page.get_by_role("button", name=SELECTED).click()
        dialog.get_by_label("Budget in dollars").fill("20")
        dialog.get_by_role("button", name=SELECTED).click()
        expect(page.locator(".opened")).not_to_have_text("monday")
        expect(dialog).to_have_count(0)
    [started] = stepfunctions.started
    retried = stored_run(deployment, started["name"])
    assert retried.request().max_dollars == 20
    assert [item.id for item in retried.items_of("00000")] == ["second"]
    # A selection without failures is refused, which Chromium names as an error.
    assert not [complaint for complaint in complaints if "409" not in complaint]


@needs_chromium
def test_a_selection_of_all_but_one_is_kept_while_an_item_is_open(
    deployment: Deployment, stepfunctions: FakeStepFunctions
) -> None:
    put_ended_run(deployment, "monday")
    complaints: list[str] = []
    with page_of(deployment, "monday", complaints) as page:
        page.get_by_role("button", name="Select all").click()
        expect(page.get_by_text("3 selected")).to_be_visible()
        page.get_by_label("Select third").uncheck()
        expect(page.get_by_text("2 selected")).to_be_visible()
        page.locator("a.row").filter(has_text="third").click()
        page.get_by_role("heading", name="third").wait_for()
        page.go_back()
        expect(page.get_by_text("2 selected")).to_be_visible()
        expect(page.get_by_label("Select second")).to_be_checked()
        expect(page.get_by_label("Select third")).not_to_be_checked()
        page.get_by_role("button", name=SELECTED).click()
        page.get_by_role("dialog").get_by_role("button", name=SELECTED).click()
        expect(page.locator(".opened")).not_to_have_text("monday")
    [started] = stepfunctions.started
    assert [item.id for item in stored_run(deployment, started["name"]).items_of("00000")] == ["second"]
    assert not complaints


@needs_chromium
def test_the_page_says_that_runs_with_several_items_about_one_file_are_compared_by_their_ids(
    deployment: Deployment,
) -> None:
    lines = [answered(item, input="s3://assets/clip.mp4") for item in ("first", "second")]
    for run in ("monday", "tuesday"):
        put_run(deployment.clients("s3"), run, [lines])
        put_row(deployment, run, items=2)
    complaints: list[str] = []
    with page_of(deployment, "", complaints) as page:
        page.get_by_role("heading", name="Runs").wait_for()
        page.evaluate("location.hash = '#/compare/monday/tuesday'")
        expect(page.get_by_role("status").filter(has_text="agree")).to_have_text("100.0 % agree. 2 same")
        keys = page.get_by_role("button", name="Items belong together")
        expect(keys).to_contain_text("By the ids of items")
        keys.click()
        page.locator("[data-value='input']").click()
        expect(page.get_by_text("Several items of a run are about s3://assets/clip.mp4.")).to_be_visible()
    # A comparison by files is refused where several items are about one file, which Chromium names as an error.
    assert not [complaint for complaint in complaints if "409" not in complaint]


@needs_chromium
def test_a_budget_that_is_not_above_zero_is_refused(deployment: Deployment, stepfunctions: FakeStepFunctions) -> None:
    put_ended_run(deployment, "monday")
    with page_of(deployment, "monday", []) as page:
        page.get_by_role("button", name="Retry what failed").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Budget in dollars").fill("0")
        dialog.get_by_role("button", name="Retry what failed").click()
        expect(page.get_by_text("maxDollars: 0: Input should be greater than 0")).to_be_visible()
        page.get_by_role("link", name="New run").click()
        page.get_by_label("Budget in dollars").fill("-5")
        page.get_by_role("button", name="Show the plan and its price").click()
        expect(page.get_by_text("maxDollars: -5: Input should be greater than 0")).to_be_visible()
    assert not stepfunctions.started


@needs_chromium
def test_the_form_of_another_pipeline_shows_no_parameters_of_the_one_before(deployment: Deployment) -> None:
    with page_of(deployment, "", []) as page:
        page.get_by_role("link", name="New run").click()
        page.get_by_role("button", name="Parameters").click()
        page.get_by_label("temperature").fill("0.5")
        page.get_by_role("button", name="Pipeline").click()
        page.locator("[data-value='cosmos-reason2-8b']").click()
        expect(page.get_by_role("button", name="Pipeline")).to_contain_text("cosmos-reason2-8b")
        expect(page.get_by_label("temperature")).to_have_value("")


@needs_chromium
def test_a_run_that_stands_still_says_so_and_what_it_has_cost(
    deployment: Deployment, half: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ItemRate, "per_second", 0.0)
    console = console_of_runs(RunDeployments(deployment), half)
    with console, serving(console) as url, chromium() as browser, watched(browser, url, []) as page:
        live = page.get_by_role("region", name="Live")
        expect(live).to_contain_text("3 items ended, none in the last minutes; 1.00 GPU-hours; cost so far: $3.00.")
