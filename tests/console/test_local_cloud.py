"""The console on a deployment with the demo's small model: from files that are dropped to an export that is sent."""

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.console.run_console import console_of_runs
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.stopped_clouds.lookup import RunDeployments
from cosmos_batch.contract.error import Error
from cosmos_batch.demo import DEMO_REASON
from cosmos_batch.demo.media import sample_clip, sample_image
from cosmos_batch.state import PipelineRow
from tests.support.browser import SIZE, chromium, needs_chromium, serious, serving, watched
from tests.support.deployed_app import TWO_B, App, configuration, running_app
from tests.support.drawn_boxes import drawn_box, shown_area

pytestmark = [needs_chromium, pytest.mark.timeout(900)]

LICENCE = Error(
    code="ModelUnavailable", message="The licence was not accepted.", remedy="Accept it on the model's page."
)
MINUTES = 300_000  # milliseconds in which the model is loaded and answers, beside busy processes


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    folder = tmp_path_factory.mktemp("app")
    entry = {"engine": "transformers", "model": str(DEMO_REASON)}
    with running_app(folder, configuration(folder, entry, worker={"idleSeconds": 600})) as running:
        yield running


@pytest.fixture(scope="module")
def deployment(app: App) -> Deployment:
    return deployments.find(app.client)


@pytest.fixture(scope="module")
def page(deployment: Deployment) -> Iterator[Page]:
    """Open the page of all runs. In the end it may not have complained, and not have asked another host."""
    complaints: list[str] = []
    with (
        chromium() as browser,
        console_of_runs(RunDeployments(deployment), "") as console,
        serving(console) as url,
        watched(browser, url, complaints, accept_downloads=True) as page,
    ):
        page.set_viewport_size(SIZE)
        yield page
    # The poster of the file that is no video cannot be made, and a selection without failures is not retried.
    assert not [complaint for complaint in complaints if "422" not in complaint and "409" not in complaint]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Provide a clip, and a text that is named as a clip."""
    folder = tmp_path_factory.mktemp("dropped")
    sample_clip(folder / "shapes.mp4")
    (folder / "broken.mp4").write_text("This is no video.")
    return sorted(folder.iterdir())


@pytest.fixture(scope="module")
def first(page: Page, files: list[Path]) -> str:
    """Start a run from the page, watch it until it has ended, and provide its id."""
    page.get_by_role("link", name="New run").click()
    choose_files(page, files)
    expect(page.get_by_text("2 files, ")).to_contain_text("broken.mp4, shapes.mp4")
    ask(page, "Task", "temporal-localization")
    page.get_by_role("button", name="Parameters").click()
    page.get_by_label("temperature").fill("0")
    page.get_by_role("button", name="Show the plan and its price").click()
    expect(page.get_by_label("Plan of the run")).to_contain_text("cost     about $")
    expect(page.get_by_text("cosmos-batch runs start --pipeline=cosmos-reason2-2b")).to_be_visible()
    expect(page.get_by_role("button", name="Start 2 items at no cost on a local cloud")).to_be_visible()
    return started(page, 2)


def choose_files(page: Page, files: list[Path]) -> None:
    page.get_by_label("Drop videos and images here").set_input_files(files)


def ask(page: Page, label: str, option: str) -> None:
    page.get_by_role("button", name=label).click()
    page.locator(f"[data-value='{option}']").click()


def started(page: Page, items: int) -> str:
    """Start what was planned, and wait without reloading until the run has ended. Returns the run's id."""
    page.get_by_role("button", name=f"Start {items} item").click()
    page.get_by_role("region", name="Run").wait_for()
    expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuenow", str(items), timeout=MINUTES)
    expect(page.locator(".run-line")).to_contain_text("SUCCEEDED", timeout=MINUTES)
    return page.url.rpartition("/runs/")[2]


def open_run(page: Page, run: str) -> None:
    page.goto(f"{page.url.partition('#')[0]}#/runs/{run}")
    expect(page.locator("a.row")).not_to_have_count(0)


@pytest.mark.slow  # it waits for workers that never come
def test_a_run_that_no_worker_can_serve_is_cancelled_and_resumed(
    page: Page, deployment: Deployment, tmp_path: Path
) -> None:
    """The breaker of the pipeline is open until the person has seen why, and has stopped the run."""
    workers = deployment.workers(TWO_B)
    workers.set_breaker(PipelineRow(failures=3, open=True, reason=LICENCE))
    expect(page.get_by_text("No run was ever started here.")).to_be_visible()
    page.get_by_role("link", name="Ask about videos and images").click()
    choose_files(page, [sample_image(tmp_path / "waiting.png")])
    ask(page, "Task", "caption")
    page.get_by_role("button", name="Show the plan and its price").click()
    page.get_by_role("button", name="Start 1 item").click()
    state = page.locator(".run-line")
    expect(state).to_contain_text("HELD", timeout=MINUTES)
    expect(page.get_by_text("No worker of cosmos-reason2-2b can start")).to_contain_text(LICENCE.remedy)
    confirm(page, "Cancel the run")
    expect(state).to_contain_text("CANCELLED", timeout=MINUTES)
    workers.set_breaker(PipelineRow())
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("dialog").get_by_label("Another budget in dollars").fill("50")
    page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    expect(state).to_contain_text("SUCCEEDED", timeout=MINUTES)
    expect(page.locator("a.row")).to_contain_text("a red circle")
    page.get_by_role("button", name="Summary").click()
    expect(
        page.get_by_text(re.compile(r"no cost on a local cloud \(AWS .* \$.* of a budget of \$50\.00\)"))
    ).to_be_visible()


def confirm(page: Page, action: str) -> None:
    """Press a button, and the button of the same name in the dialog that asks whether to go on."""
    page.get_by_role("button", name=action).click()
    page.get_by_role("dialog").get_by_role("button", name=action).click()
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_person_sees_when_things_happen_and_why_a_file_has_failed(page: Page, first: str) -> None:
    open_run(page, first)
    rows = page.locator("a.row")
    expect(rows).to_have_count(2)
    page.get_by_role("button", name="Status").click()
    page.get_by_role("option", name="failed").click()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("InvalidInput")
    expect(rows).to_contain_text("broken.mp4")
    page.get_by_role("button", name="Status").click()
    page.get_by_role("option", name="Any status").click()
    rows.filter(has_text="shapes.mp4").click()
    event = page.locator(".event").nth(1)
    event.click()
    expect(page.locator(".event[aria-current]")).to_have_count(1)
    assert page.evaluate("document.querySelector('video').currentTime") > 0
    expect(page.get_by_role("button", name="The model saw")).to_be_visible()
    expect(page.get_by_text("GPU-seconds")).to_be_visible()
    page.get_by_role("button", name="Show the log").click()
    expect(page.get_by_label("Log")).to_be_visible()


def test_an_item_is_asked_again_with_another_task(page: Page, first: str) -> None:
    open_run(page, first)
    page.locator("a.row").filter(has_text="shapes.mp4").click()
    page.get_by_role("link", name="Ask again").click()
    expect(page.get_by_role("button", name="Task")).to_contain_text("temporal-localization")
    expect(page.get_by_label("Or files in S3")).to_have_value(re.compile("^s3://.*/shapes.mp4$"))
    ask(page, "Task", "caption")
    page.get_by_role("button", name="Show the plan and its price").click()
    started(page, 1)
    expect(page.locator("a.row")).to_contain_text("a red circle")


def test_boxes_are_drawn_on_a_picture(page: Page, tmp_path: Path) -> None:
    page.get_by_role("link", name="New run").click()
    choose_files(page, [sample_image(tmp_path / "picture.png")])
    expect(page.get_by_text("1 file,")).to_be_visible()
    ask(page, "Task", "2d-grounding")
    page.get_by_label("Prompt").fill("circle")
    page.get_by_role("button", name="Show the plan and its price").click()
    started(page, 1)
    page.locator("a.row").click()
    expect(page.locator(".overlay rect")).not_to_have_count(0)
    expect(page.locator("h1", has_text="picture.png")).to_be_visible()
    page.get_by_role("button", name="Document").click()
    [box, *_] = json.loads(page.get_by_label("Document as JSON").inner_text())["data"]
    with Image.open(tmp_path / "picture.png") as picture:
        size = picture.size
    assert drawn_box(page, shown_area(page), size) == pytest.approx(box["bbox_pixels"], abs=1)


def test_what_has_failed_of_a_selection_is_retried_after_the_file_was_replaced(
    page: Page, app: App, first: str, files: list[Path]
) -> None:
    [key] = [key for key in app.keys("uploads/") if key.endswith("/broken.mp4")]
    marked = {"cosmos-batch-job": "submitted"}
    app.client("s3").put_object(Bucket=app.assets, Key=key, Body=files[-1].read_bytes(), Metadata=marked)
    open_run(page, first)
    page.get_by_label("Select shapes.mp4").check()
    page.get_by_role("button", name="Retry those that failed").click()
    expect(page.get_by_text("None of the selected items has failed.")).to_be_visible()
    page.get_by_label("Select broken.mp4").check()
    page.get_by_role("button", name="Retry those that failed").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("A new run asks again about 1 item, at no cost on a local cloud.")
    dialog.get_by_role("button", name="Retry those that failed").click()
    expect(page.locator(".opened")).not_to_have_text(first)
    expect(page.locator(".run-line")).to_contain_text("SUCCEEDED", timeout=MINUTES)
    expect(page.locator("a.row")).to_have_count(1)
    expect(page.locator("a.row")).to_contain_text("Answered")
    page.get_by_role("link", name="Runs", exact=True).click()
    expect(page.locator(".runs tbody tr")).not_to_have_count(1)


def test_two_runs_are_compared(page: Page, first: str) -> None:
    """The run that asked again has other answers about the clip."""
    page.evaluate(f"location.hash = '#/compare/{first}'")
    page.get_by_role("button", name="Other run").click()
    page.get_by_role("option").nth(-1).click()
    expect(page.get_by_role("status").filter(has_text="only in the first")).to_be_visible()
    expect(page.locator(".compared tbody tr")).not_to_have_count(0)


def test_what_is_selected_is_exported_and_opens_from_a_file(
    page: Page, first: str, tmp_path: Path, browser: Browser
) -> None:
    open_run(page, first)
    page.get_by_label("Select shapes.mp4").check()
    page.get_by_label("Select broken.mp4").check()
    expect(page.get_by_text("2 selected")).to_be_visible()
    page.get_by_role("button", name="Export with media").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(re.compile(r"2 videos and images of [\d.]+ [kM]B are copied"))
    with page.expect_download() as download:
        dialog.get_by_role("button", name="Export with media").click()
    with zipfile.ZipFile(download.value.path()) as archive:
        archive.extractall(tmp_path)
    complaints: list[str] = []
    with watched(browser, (tmp_path / f"{first}-page" / "index.html").as_uri(), complaints) as exported:
        expect(exported.locator("a.row")).to_have_count(2)
        exported.locator("a.row").filter(has_text="shapes.mp4").click()
        exported.locator(".event").first.click()
        expect(exported.locator(".event[aria-current]")).to_have_count(1)
    assert not complaints


@pytest.fixture
def browser(page: Page) -> Browser:
    found = page.context.browser
    assert found is not None
    return found


def test_axe_finds_nothing_serious_on_the_pages_of_runs(page: Page, first: str, axe: str) -> None:
    open_run(page, first)
    findings = serious(page, axe)
    for place in ("runs", "new", f"compare/{first}"):
        page.evaluate(f"location.hash = '#/{place}'")
        page.get_by_role("heading", level=2).first.wait_for()
        findings += serious(page, axe)
    assert not findings
