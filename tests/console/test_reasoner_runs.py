"""Runs of reasoners in the browser: one that goes on, and two side by side."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Page, expect

from cosmos_batch.cli.console.run_console import console_of_runs
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.stopped_clouds.lookup import RunDeployments
from cosmos_batch.contract.runs import ResultLine
from cosmos_batch.state import ItemEnd, PipelineRow
from tests.cli.commands.runs.conftest import put_row
from tests.support.browser import chromium, needs_chromium, serious, serving, watched
from tests.support.console_runs import LARGER, LICENCE, put_clips, put_runs
from tests.support.moto_deployment import moto_deployment
from tests.support.run_objects import PIPELINE, answered, failed, put_run

pytestmark = needs_chromium

MONDAY = [
    answered("a.mp4", "It is safe."),
    answered("b.mp4", "A circle moves, then a square falls."),
    failed("c.mp4"),
    answered("d.mp4", "It rains."),
    failed("e.mp4"),
]
TUESDAY = [
    answered("a.mp4", "It is safe. "),
    answered("b.mp4", "A circle moves, then a triangle falls."),
    answered("c.mp4", "It snows."),
    failed("e.mp4"),
    answered("f.mp4", "It hails."),
]
# The same files, which another manifest has given other ids.
WEDNESDAY = [answered(f"item-{line.id}", line.answer, input=line.input) for line in MONDAY if line.answer]


@pytest.fixture(scope="module")
def deployment() -> Iterator[Deployment]:
    """Provide a deployment with three runs over nearly the same files, and those of the pictures of the console."""
    with ExitStack() as stack:
        stack.enter_context(pytest.MonkeyPatch.context()).setenv("AWS_DEFAULT_REGION", "us-east-1")
        deployment = stack.enter_context(moto_deployment(None))
        clips = put_clips(deployment)
        put_runs(deployment, clips)
        for name in "abcdef":
            source = {"Bucket": "assets", "Key": next(iter(clips))}
            deployment.clients("s3").copy_object(Bucket="assets", Key=f"{name}.mp4", CopySource=source)
        for run, lines in (("monday", MONDAY), ("tuesday", TUESDAY), ("wednesday", WEDNESDAY)):
            put_ended_run(deployment, run, lines)
        yield deployment


def put_ended_run(deployment: Deployment, run: str, lines: list[ResultLine]) -> None:
    put_run(deployment.clients("s3"), run, [lines])
    put_row(deployment, run, items=len(lines))
    deployment.runs.end(run, deployment.execution_arn(run), "SUCCEEDED", None)


@pytest.fixture(scope="module")
def page(deployment: Deployment) -> Iterator[Page]:
    complaints: list[str] = []
    with ExitStack() as stack:
        console = stack.enter_context(console_of_runs(RunDeployments(deployment), ""))
        browser = stack.enter_context(chromium())
        url = stack.enter_context(serving(console))
        yield stack.enter_context(watched(browser, url, complaints))
    assert not complaints


def go_to(page: Page, place: str) -> None:
    page.evaluate(f"location.hash = '#/{place}'")


def test_two_runs_are_side_by_side_with_their_differences_marked_and_their_agreement_counted(page: Page) -> None:
    """Three files were answered by at least one of the runs, and one of them has the same answer in both."""
    go_to(page, "compare/monday")
    page.get_by_role("button", name="Other run").click()
    page.locator("[data-value='tuesday']").click()
    expect(page.get_by_role("status").filter(has_text="agree")).to_have_text(
        "33.3 % agree. 1 changed, 1 fails in both, 1 is answered now, 1 only in the first, 1 only in the second, 1 same"
    )
    rows = page.locator(".compared tbody tr")
    expect(rows.locator("th")).to_have_text(
        ["b.mp4 changed", "c.mp4 is answered now", "d.mp4 only in the first", "f.mp4 only in the second"]
    )
    first, second = rows.nth(0).locator("td").nth(0), rows.nth(0).locator("td").nth(1)
    expect(first).to_contain_text("A circle moves, then a square falls.")
    expect(first.locator("mark")).to_have_text(["square"])
    expect(second.locator("mark")).to_have_text(["triangle"])
    expect(rows.nth(1).locator("td")).to_have_text(["c.mp4InvalidInput", "c.mp4It snows."])
    expect(rows.nth(2).locator("td")).to_have_text(["d.mp4It rains.", "not in this run"])
    expect(rows.nth(3).locator("td")).to_have_text(["not in this run", "f.mp4It hails."])
    second.get_by_role("link").click()
    expect(page.locator(".answered")).to_have_text("A circle moves, then a triangle falls.")
    assert "/runs/tuesday/item/" in page.url


def test_runs_whose_items_have_other_ids_are_compared_by_their_files(page: Page) -> None:
    go_to(page, "compare/monday/wednesday")
    status = page.get_by_role("status").filter(has_text="only in the first")
    expect(status).to_have_text("100.0 % agree. 2 only in the first, 3 same")
    page.get_by_role("button", name="Items belong together").click()
    page.locator("[data-value='id']").click()
    expect(status).to_have_text("5 only in the first, 3 only in the second")


def test_a_prefix_is_chosen_by_looking_and_asked_about(page: Page) -> None:
    go_to(page, "new")
    page.get_by_role("button", name="Choose a prefix").click()
    page.get_by_role("button", name="s3://assets/").click()
    page.get_by_role("button", name="clips/", exact=True).click()
    expect(page.get_by_text("12 videos and images in it")).to_be_visible()
    page.get_by_role("button", name="Take all below it").click()
    expect(page.get_by_label("Or files in S3")).to_have_value("s3://assets/clips/")
    page.get_by_role("textbox", name="Prompt", exact=True).fill("What happens?")
    page.get_by_role("button", name="Show the plan and its price").click()
    expect(page.get_by_role("button", name="Start 12 items for about $")).to_be_visible()


def test_axe_finds_nothing_serious_on_two_runs_side_by_side(page: Page, axe: str) -> None:
    go_to(page, "compare/monday/tuesday")
    page.locator(".compared mark").first.wait_for()
    assert not serious(page, axe)


def test_a_run_that_goes_on_is_followed_without_reloading(page: Page, deployment: Deployment) -> None:
    """It shows each worker with its phase, why a pipeline has none, and what waits; then more items have ended."""
    page.evaluate("window.isReloaded = false")
    go_to(page, "runs/yard-cameras")
    live = page.get_by_role("region", name="Live")
    phases = live.locator(".workers li strong")
    expect(phases).to_have_text(["answering", "answering", "loading the model", "waiting for an instance"])
    blocked = live.get_by_text(f"{LARGER}: no worker can serve (ModelUnavailable)")
    expect(blocked).to_be_visible()
    expect(live.get_by_text(LICENCE.remedy)).to_be_visible()
    expect(live).to_contain_text("items in the queue or with a worker.")
    expect(live).to_contain_text("238 items not in the queue yet: after those in the queue have ended.")
    expect(live).to_contain_text("GPU-hours; cost so far: $")
    progress = page.get_by_role("progressbar")
    expect(progress).to_have_attribute("aria-valuenow", "282")

    ends = {item: ItemEnd("succeeded", gpu_seconds=1.4, dollars=0.0012) for item in range(90, 100)}
    deployment.runs.shards.count("yard-cameras", "00001", ends)
    deployment.workers(PIPELINE).ready("worker-3")
    deployment.workers(LARGER).set_breaker(PipelineRow())
    expect(progress).to_have_attribute("aria-valuenow", "292")
    expect(phases.nth(2)).to_have_text("answering")
    expect(blocked).to_have_count(0)
    assert page.evaluate("window.isReloaded") is False
