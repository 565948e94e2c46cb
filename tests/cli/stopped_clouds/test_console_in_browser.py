"""A run of a local cloud that was stopped, in the browser."""

from playwright.sync_api import expect

from cosmos_batch.cli.console.run_console import console_of_runs
from cosmos_batch.cli.stopped_clouds.lookup import find_run_deployments
from tests.cli.stopped_clouds.conftest import Cloud
from tests.cli.stopped_clouds.test_console import stopped as stopped
from tests.support.browser import chromium, needs_chromium, serving, watched


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
            rows.filter(has_text="clip.mp4").click()
            page.wait_for_function("() => document.querySelector('video')?.readyState >= 2")
            page.go_back()
            rows.filter(has_text="red.png").click()
            expect(page.get_by_text("red.png is not here, so it cannot be shown.")).to_be_visible()
        # Chromium names as errors the posters of files that were not kept.
        assert not [complaint for complaint in complaints if "404" not in complaint]
