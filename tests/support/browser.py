"""Chromium, in which tests open pages; where it is not installed they are skipped, and `.ci/run` fails for it."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import Browser, Page, Route, expect, sync_playwright

from cosmos_batch.console.console import FOLDER, Console
from cosmos_batch.console.guard import Session
from cosmos_batch.console.scope import Scope
from cosmos_batch.console.server import listening, make_server, url_of
from cosmos_batch.console.view import View

CHROMIUM = shutil.which("chromium")
WHY_SKIPPED = "Chromium is not installed: make chromium says why"

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason=WHY_SKIPPED)

SIZE = {"width": 1200, "height": 800}
MILLISECONDS = 60_000  # that an expectation may take on a busy machine
expect.set_options(timeout=MILLISECONDS)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start Chromium without a window.

    While it runs, the thread has a running event loop: `asyncio.run` fails in it.
    """
    with sync_playwright() as playwright:
        # Without a sandbox, because tests run as root in containers; they open pages of this project alone.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def served(path: Path) -> Iterator[str]:
    """Serve a folder or file in a thread, and yield the URL to open. All of it is read before."""
    with Console.of_folder(Scope.of(path)) as console:
        read_view(console, FOLDER)
        with serving(console) as url:
            yield url


@contextmanager
def opened_view(path: Path) -> Iterator[View]:
    """Open a folder or file, and yield its view when all of it was read."""
    with Console.of_folder(Scope.of(path)) as console:
        yield read_view(console, FOLDER)


def read_view(console: Console, name: str) -> View:
    """Return a view when all was read that there is."""
    view = console.view(name)
    assert view is not None
    view.scan.wait()
    return view


@contextmanager
def serving(console: Console) -> Iterator[str]:
    """Serve a console in a thread, and yield the URL to open."""
    with listening(0) as socket:
        session = Session(socket.getsockname()[1])
        server = make_server(console, session)
        thread = Thread(target=server.run, args=([socket],))
        thread.start()
        try:
            yield url_of(socket, session)
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def watched(browser: Browser, url: str, complaints: list[str], **options: object) -> Iterator[Page]:
    """Open a URL, and collect the errors of the page and its requests to other places than its own folder."""
    home = url.split("#")[0].removesuffix("index.html")
    # Without motion, because axe would read the colors of a transition that is under way.
    context = browser.new_context(viewport=SIZE, reduced_motion="reduce", **options)  # type: ignore[arg-type]
    context.set_default_timeout(MILLISECONDS)
    page = context.new_page()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    page.on("request", lambda one: None if one.url.startswith((home, "data:", "blob:")) else complaints.append(one.url))
    page.goto(url)
    yield page
    context.close()


class HeldRequest:
    """The next request of a page to a URL like the pattern. It waits until it is let through."""

    def __init__(self, page: Page, pattern: str) -> None:
        self._page = page
        self._routes: list[Route] = []
        self._pattern = pattern
        # A lambda, because Playwright does not take the method of a list.
        page.route(pattern, lambda route: self._routes.append(route), times=1)

    def wait(self) -> None:
        """Return when the page has sent the request, which can be after the page shows what it does."""
        end = time.monotonic() + MILLISECONDS / 1000
        while not self._routes:
            assert time.monotonic() < end, f"the page sends no request to {self._pattern}"
            self._page.wait_for_timeout(10)

    def let_through(self) -> None:
        """Wait for the request, and send it on to the server."""
        self.wait()
        self._routes[0].continue_()


def serious(page: Page, axe: str) -> list[str]:
    """Return the serious findings of axe on what a page shows."""
    page.evaluate(axe)
    violations = page.evaluate("axe.run()")["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html']}" for one in violations if one["impact"] in ("serious", "critical")]
