"""Runs of generators in the browser: their contact sheet, two of them side by side, and the form of a new one."""

import re
import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from cosmos_batch.cli.console.run_console import console_of_runs
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.stopped_clouds.lookup import RunDeployments
from cosmos_batch.contract.result import Output
from cosmos_batch.contract.runs import ResultLine
from tests.cli.commands.runs.conftest import put_row
from tests.support import media_files
from tests.support.browser import HeldRequest, chromium, needs_chromium, serious, serving, watched
from tests.support.moto_deployment import moto_deployment
from tests.support.run_objects import answered, put_run

pytestmark = needs_chromium

PROMPTS = ("A robot pours water.", "A robot folds a towel.")
SEEDS = (1, 2)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Open the console of two runs over the same prompts and seeds, of which one video has changed."""
    complaints: list[str] = []
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        deployment = stack.enter_context(moto_deployment(None))
        deployment.pipelines.append("cosmos3-nano")
        video = media_files.video(tmp_path_factory.mktemp("made") / "made.mp4")
        for run, changed in (("monday", ""), ("tuesday", "#prompt=2,seed=2")):
            put_run(deployment.clients("s3"), run, [list(_made(deployment, run, video, changed))])
            put_row(deployment, run, items=4)
            deployment.runs.end(run, deployment.execution_arn(run), "SUCCEEDED", None)
        console = stack.enter_context(console_of_runs(RunDeployments(deployment), ""))
        browser = stack.enter_context(chromium())
        url = stack.enter_context(serving(console))
        yield stack.enter_context(watched(browser, url, complaints))
    assert not complaints


def _made(deployment: Deployment, run: str, video: Path, changed: str) -> Iterator[ResultLine]:
    """Yield the items of a run, whose videos are in S3."""
    for number, prompt in enumerate(PROMPTS, start=1):
        for seed in SEEDS:
            name = f"#prompt={number},seed={seed}"
            key = f"made/{run}/{number}-{seed}.mp4"
            deployment.clients("s3").upload_file(str(video), "assets", key)
            document = Output(uri=f"s3://assets/made/{run}/{name}.json", size=1, content_type="application/json")
            content = f"{name} anew" if name == changed else name
            output = Output(uri=f"s3://assets/{key}", size=1, content_type="video/mp4", sha256=content)
            variant = {"prompt": number, "seed": seed}
            line = answered(name, None, input=None, prompt=prompt, variant=variant, outputs=[document, output])
            yield line.model_copy(update={"pipeline": "cosmos3-nano"})


@pytest.mark.slow  # axe reads two large pages
def test_axe_finds_nothing_serious_on_the_sheet_and_on_two_runs_side_by_side(page: Page, axe: str) -> None:
    for place, shown in (("runs/monday/sheet", ".sheet video"), ("compare/monday/tuesday", ".compared video")):
        go_to(page, place)
        page.locator(shown).first.wait_for()
        assert not serious(page, axe)


def test_a_generation_is_asked_for_again_with_its_pipeline_and_prompt(page: Page) -> None:
    go_to(page, "runs/monday")
    page.locator("a.row").first.click()
    page.get_by_role("link", name="Ask again").click()
    expect(page.get_by_role("button", name="Pipeline")).to_contain_text("cosmos3-nano")
    expect(page.get_by_role("textbox", name="Prompt", exact=True)).to_have_value(re.compile("^A robot "))


def go_to(page: Page, place: str) -> None:
    page.evaluate(f"location.hash = '#/{place}'")


def test_a_sweep_is_a_sheet_of_prompts_and_seeds_whose_videos_play_in_step(page: Page) -> None:
    go_to(page, "runs/monday/sheet")
    sheet = page.locator(".sheet")
    expect(sheet.locator("thead th")).to_have_text(["Prompt", "Seed 1", "Seed 2"])
    expect(sheet.locator("tbody th")).to_have_text(sorted(PROMPTS))
    videos = page.locator(".sheet video")
    expect(videos).to_have_count(4)
    page.get_by_role("button", name="Play all").click()
    in_step = """() => {
      const times = [...document.querySelectorAll("video")].map((video) => video.currentTime);
      return times[0] > 0 && times.every((time) => Math.abs(time - times[0]) < 0.3);
    }"""
    page.wait_for_function(in_step)
    videos.last.evaluate("(video) => { video.pause(); video.currentTime = 3.5; }")
    page.wait_for_function(in_step)
    page.get_by_role("button", name="Pause all").click()
    page.get_by_role("button", name="To the beginning").click()
    assert videos.evaluate_all("(all) => all.every((video) => video.paused && video.currentTime === 0)")


def test_two_runs_agree_where_the_contents_of_their_videos_are_the_same(page: Page) -> None:
    go_to(page, "compare/monday/tuesday")
    expect(page.get_by_role("status").filter(has_text="75.0 % agree.")).to_be_visible()
    rows = page.locator(".compared tbody tr")
    expect(rows).to_have_count(1)
    expect(rows.locator("th")).to_contain_text("#prompt=2,seed=2")
    expect(rows.locator("video")).to_have_count(2)
    expect(page.get_by_role("button", name="Play all")).to_be_visible()


def test_a_generation_is_asked_for_with_a_control_and_seeds(page: Page, tmp_path: Path) -> None:
    go_to(page, "new")
    page.get_by_role("button", name="Pipeline").click()
    page.locator("[data-value='cosmos3-nano']").click()
    page.get_by_role("textbox", name="Prompt", exact=True).fill("The same, at night.")
    page.get_by_label("Seeds").fill("1, 3-4")
    drop(page, "clip.mp4")
    expect(page.get_by_text("1 file, ")).to_contain_text("clip.mp4")
    page.get_by_role("button", name="Parameters").click()
    page.get_by_label("edge", exact=True).check()
    page.get_by_label("weight").fill("0.5")
    control = media_files.video(tmp_path / "edges.mp4")
    asks = page.get_by_role("button", name="Show the plan and its price")
    copy = HeldRequest(page, "**/api/dropped?**")
    page.get_by_label("File for controls.edge.path").set_input_files(control)
    expect(asks).to_be_disabled()  # a plan would be without the file, and would go when the file is there
    copy.let_through()
    asks.click()
    expect(page.get_by_role("button", name="Start 3 items")).to_be_visible()
    shown = page.get_by_role("region", name="Plan").get_by_text("cosmos-batch runs start").inner_text()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy the command").click()
    expect(page.get_by_text("Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == shown
    words = shlex.split(shown)
    assert words[:4] == ["aws", "s3", "cp", "edges.mp4"] and "--seeds=1,3-4" in words and words[-1] == "clip.mp4"
    assert f'--parameters={{"controls": {{"edge": {{"weight": 0.5, "path": "{words[4]}"}}}}}}' in words


def test_files_that_are_dropped_while_others_are_copied_join_them_and_none_is_taken_twice(page: Page) -> None:
    go_to(page, "runs")
    go_to(page, "new")
    copy = HeldRequest(page, "**/api/dropped?**")
    status = page.locator(".drop").get_by_role("status")
    drop(page, "first.mp4")
    drop(page, "second.mp4")
    expect(status).to_contain_text("2 to come")
    plan = page.get_by_role("button", name="Show the plan and its price")
    expect(plan).to_be_disabled()
    copy.let_through()
    expect(status).to_have_text("2 files, 0.0 kB: first.mp4, second.mp4")
    expect(plan).to_be_enabled()
    drop(page, "first.mp4")
    expect(status).to_contain_text("dropped before, and asked about once: first.mp4")
    expect(status).to_contain_text("2 files, 0.0 kB: first.mp4, second.mp4")
    page.get_by_role("button", name="Remove all").click()
    expect(status).to_have_text("")
    drop(page, "third.mp4")
    expect(status).to_have_text("1 file, 0.0 kB: third.mp4")


def test_a_plan_is_dropped_when_the_form_has_changed(page: Page) -> None:
    """A person goes on typing while the plan is made: starting it would ask something else."""
    go_to(page, "runs")
    go_to(page, "new")
    drop(page, "clip.mp4")
    prompt = page.get_by_role("textbox", name="Prompt", exact=True)
    prompt.fill("Is it safe?")
    making = HeldRequest(page, "**/api/plans")
    plan = page.get_by_role("button", name="Show the plan and its price")
    plan.click()
    making.wait()
    prompt.fill("Is it red?")
    with page.expect_response("**/api/plans"):
        making.let_through()
    expect(plan).to_be_enabled()
    expect(page.get_by_role("region", name="Plan")).to_have_count(0)
    plan.click()
    expect(page.get_by_role("region", name="Plan")).to_contain_text("Is it red?")


def drop(page: Page, name: str) -> None:
    """Drop a file of this name on the page, as a person does with the mouse."""
    data = page.evaluate_handle(
        "(name) => { const data = new DataTransfer(); data.items.add(new File(['content'], name)); return data; }", name
    )
    page.dispatch_event(".drop", "drop", {"dataTransfer": data})
