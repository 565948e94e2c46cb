"""A run of a local cloud that was stopped, in the browser."""

from pathlib import Path

from playwright.sync_api import expect

from cosmos_batch.cli.console.run_console import console_of_runs
from cosmos_batch.cli.main import main
from cosmos_batch.cli.stopped_clouds.lookup import find_run_deployments
from tests.cli.stopped_clouds.conftest import Cloud
from tests.cli.stopped_clouds.test_console import stopped as stopped
from tests.support.browser import chromium, needs_chromium, serving, watched

ITEM = "no cost on a local cloud (AWS would have charged $0.001 for 0.50 GPU-seconds)"


@needs_chromium
def test_a_kept_run_is_looked_at_in_the_browser(stopped: Cloud) -> None:
    complaints: list[str] = []
    with console_of_runs(find_run_deployments(), "") as console, serving(console) as url, chromium() as browser:
        with watched(browser, url, complaints) as page:
            page.get_by_role("link", name="monday").click()
            rows = page.locator("a.row")
            expect(rows).to_have_count(3)
            expect(page.locator(".run-line")).to_contain_text("SUCCEEDED")
            for action in ("Cancel the run", "Resume", "Retry what failed"):
                expect(page.get_by_role("button", name=action)).to_have_count(0)
            page.get_by_role("button", name="Summary").click()
            price = "AWS would have charged $3.00"
            expect(page.get_by_text(f"no cost on a local cloud ({price} of a budget of $50.00)")).to_be_visible()
            expect(rows.filter(has_text="clip.mp4")).to_contain_text("$0.001 on AWS")
            rows.filter(has_text="clip.mp4").click()
            expect(page.get_by_text(ITEM)).to_be_visible()
            page.wait_for_function("() => document.querySelector('video')?.readyState >= 2")
            page.go_back()
            rows.filter(has_text="red.png").click()
            expect(page.get_by_text("red.png is not here, so it cannot be shown.")).to_be_visible()
        # Chromium names as errors the posters of files that were not kept.
        assert not [complaint for complaint in complaints if "404" not in complaint]


@needs_chromium
def test_the_export_of_a_kept_run_says_that_nothing_was_paid(stopped: Cloud, tmp_path: Path) -> None:
    assert main(["view", "monday", "--export", str(tmp_path / "page")]) == 0
    complaints: list[str] = []
    place = (tmp_path / "page" / "index.html").as_uri()
    with chromium() as browser, watched(browser, place, complaints) as page:
        row = page.locator("a.row").filter(has_text="clip.mp4")
        expect(row).to_contain_text("$0.001 on AWS")
        row.click()
        expect(page.get_by_text(ITEM)).to_be_visible()
    assert not complaints
