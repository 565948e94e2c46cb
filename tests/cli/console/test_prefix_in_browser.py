"""The documents below a prefix in S3, in the browser."""

from playwright.sync_api import expect

from cosmos_batch.cli.commands.view import _opened
from cosmos_batch.console.console import FOLDER
from tests.cli.console.test_prefix_view import prefix as prefix
from tests.support.browser import chromium, needs_chromium, read_view, serving, watched


@needs_chromium
def test_a_prefix_is_looked_at_in_the_browser() -> None:
    complaints: list[str] = []
    with _opened("s3://assets/clips/") as console, serving(console) as url, chromium() as browser:
        read_view(console, FOLDER)
        with watched(browser, url, complaints) as page:
            row = page.locator("a.row")
            expect(row).to_contain_text("A red circle moves.")
            expect(row.locator("img")).to_be_visible()
            row.click()
            page.wait_for_function("() => document.querySelector('video')?.readyState >= 2")
            page.evaluate("document.querySelector('video').currentTime = 3")
            page.wait_for_function("() => !document.querySelector('video').seeking")
            expect(page.get_by_text("secret.mp4 is not here, so it cannot be shown.")).to_be_visible()
    assert not complaints
